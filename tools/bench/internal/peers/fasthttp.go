package peers

import (
	"io"
	"log"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
)

func newFastHTTP(o Options, reduced bool) (Server, error) {
	handler, err := FastHTTPHandler(o)
	if err != nil {
		return nil, err
	}
	server := &fasthttp.Server{Handler: handler, Logger: log.New(io.Discard, "", 0), ReduceMemoryUsage: reduced}
	if !o.TLS {
		return server, nil
	}
	certificate, key, err := sluice.GenerateTestCertificate(certificateHost)
	return serveFunc(func(ln net.Listener) error { return server.ServeTLSEmbed(ln, certificate, key) }), err
}

// FastHTTPHandler returns the handler of a fasthttp server.
func FastHTTPHandler(o Options) (fasthttp.RequestHandler, error) {
	if o.Answer == AnswerFile {
		return (&fasthttp.FS{Root: o.Root, AcceptByteRange: true}).NewRequestHandler(), nil
	}
	work := o.Handler.work()
	answer, err := o.Answer.content()
	if err != nil {
		return nil, err
	}
	handler := func(ctx *fasthttp.RequestCtx) {
		if len(ctx.PostBody()) != o.BodySize || !isGood(ctx.Path(), ctx.UserAgent(), ctx.QueryArgs().Peek("page")) {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			return
		}
		if work != nil {
			work(ctx.Path())
		}
		ctx.SetContentType(answer.contentType)
		if o.Answer == AnswerLarge {
			ctx.Response.SetBodyRaw(answer.body())
			return
		}
		ctx.Write(answer.body())
	}
	if o.Answer == AnswerGzip {
		return fasthttp.CompressHandlerLevel(handler, GzipLevel), nil
	}
	return handler, nil
}
