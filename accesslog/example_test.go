package accesslog_test

import (
	"log/slog"
	"os"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
	"github.com/sluicehttp/sluice/middleware"
)

func ExampleAttach() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }}
	accesslog.Attach(server, accesslog.Options{
		Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)),
		Every:  100,                    // of the ordinary requests, one of 100
		Slow:   500 * time.Millisecond, // each slow one
	})
	server.Handler = middleware.RequestID(server.Handler)
}
