package peers

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/network/standard"
)

var errHertzGzip = errors.New("hertz does not compress without a package of its own")

func newHertz(o Options) (Server, error) {
	hlog.SetOutput(io.Discard)
	if o.Answer == AnswerGzip {
		return nil, errHertzGzip
	}
	// Connections that a load leaves idle between rounds live as long as the
	// others' do.
	options := []config.Option{server.WithKeepAliveTimeout(time.Hour), server.WithIdleTimeout(time.Hour)}
	if o.TLS {
		c, err := TLSConfig()
		if err != nil {
			return nil, err
		}
		// Hertz's own event loops do not do TLS.
		options = append(options, server.WithTLS(c), server.WithTransport(standard.NewTransporter))
	}
	var answer content
	if o.Answer != AnswerFile {
		var err error
		if answer, err = o.Answer.content(); err != nil {
			return nil, err
		}
	}
	return serveFunc(func(ln net.Listener) error {
		h := server.New(append(options, server.WithListener(ln))...)
		if o.Answer == AnswerFile {
			h.StaticFS("/", &app.FS{Root: o.Root, AcceptByteRange: true})
		} else {
			h.Any("/*target", hertzHandler(o, answer))
		}
		return h.Run()
	}), nil
}

func hertzHandler(o Options, answer content) app.HandlerFunc {
	work := o.Handler.work()
	return func(_ context.Context, ctx *app.RequestContext) {
		if len(ctx.Request.Body()) != o.BodySize || !isGood(ctx.Path(), ctx.UserAgent(), ctx.QueryArgs().Peek("page")) {
			ctx.SetStatusCode(400)
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
}
