package peers

import (
	"crypto/tls"
	"net"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/compress"
	"github.com/gofiber/fiber/v3/middleware/static"
)

func newFiber(o Options) (Server, error) {
	app := fiber.New(fiber.Config{ServerHeader: Fiber}) // the others send this field, too
	switch o.Answer {
	case AnswerFile:
		app.Use("/", static.New(o.Root, static.Config{ByteRange: true}))
	default:
		answer, err := o.Answer.content()
		if err != nil {
			return nil, err
		}
		if o.Answer == AnswerGzip {
			app.Use(compress.New()) // its default level is fasthttp's: GzipLevel
		}
		app.All("/*", fiberHandler(o, answer))
	}
	serve := func(ln net.Listener) error {
		return app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true})
	}
	if !o.TLS {
		return serveFunc(serve), nil
	}
	config, err := TLSConfig()
	return serveFunc(func(ln net.Listener) error { return serve(tls.NewListener(ln, config)) }), err
}

func fiberHandler(o Options, answer content) fiber.Handler {
	work := o.Handler.work()
	return func(c fiber.Ctx) error {
		if len(c.Body()) != o.BodySize || !isGood(c.Path(), c.Get(fiber.HeaderUserAgent), c.Query("page")) {
			return c.SendStatus(fiber.StatusBadRequest)
		}
		if work != nil {
			work([]byte(c.Path()))
		}
		c.Set(fiber.HeaderContentType, answer.contentType)
		if o.Answer == AnswerLarge {
			return c.Send(answer.body())
		}
		_, err := c.Write(answer.body())
		return err
	}
}
