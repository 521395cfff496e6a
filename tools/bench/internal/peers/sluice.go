package peers

import (
	"crypto/tls"
	"io"
	"log"
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
)

const certificateHost = "127.0.0.1"

// TLSConfig returns a configuration for TLS 1.3 with a certificate made for the occasion.
func TLSConfig() (*tls.Config, error) {
	certificate, key, err := sluice.GenerateTestCertificate(certificateHost)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
}

func newSluice(kind string, o Options) (Server, error) {
	handler, err := SluiceHandler(o)
	if err != nil {
		return nil, err
	}
	server := &sluice.Server{Handler: handler, Logger: log.New(io.Discard, "", 0), CompactTLS: o.CompactTLS, HTTP2: sluice.HTTP2Config{Disable: !o.HTTP2}}
	if err := selectEngine(server, kind); err != nil {
		return nil, err
	}
	if o.Metered {
		prefork.NewSingle(server)
	}
	serve := server.Serve
	if o.TLS {
		certificate, key, err := sluice.GenerateTestCertificate(certificateHost)
		if err != nil {
			return nil, err
		}
		serve = func(ln net.Listener) error { return server.ServeTLSEmbed(ln, certificate, key) }
	}
	return serveFunc(func(ln net.Listener) error {
		if err := checkEngine(server, ln); err != nil {
			return err
		}
		return serve(ln)
	}), nil
}

// SluiceHandler returns the handler of a Sluice server.
func SluiceHandler(o Options) (sluice.RequestHandler, error) {
	if o.Answer == AnswerFile {
		return (&sluice.FS{Root: o.Root, AcceptByteRange: true, GenerateETag: true}).NewRequestHandler(), nil
	}
	work := o.Handler.work()
	answer, err := o.Answer.content()
	if err != nil {
		return nil, err
	}
	contents := o.Handler.contents()
	handler := func(ctx *sluice.RequestCtx) {
		if len(ctx.PostBody()) != o.BodySize || !isGood(ctx.Path(), ctx.UserAgent(), ctx.QueryArgs().Peek("page")) {
			ctx.SetStatusCode(sluice.StatusBadRequest)
			return
		}
		if work != nil {
			work(ctx.Path())
		}
		ctx.SetContentType(answer.contentType)
		if p := contents(ctx.Path()); p != nil {
			ctx.Response.SetBodyRaw(p)
			return
		}
		if o.Answer == AnswerLarge {
			ctx.Response.SetBodyRaw(answer.body())
			return
		}
		ctx.Write(answer.body())
	}
	if o.Answer == AnswerGzip {
		return sluice.CompressHandlerLevel(handler, GzipLevel), nil
	}
	return handler, nil
}
