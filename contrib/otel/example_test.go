package otel_test

import (
	"context"
	"log"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/sluicehttp/sluice"
	sluiceotel "github.com/sluicehttp/sluice/contrib/otel"
)

// A server that asks another one: both requests are in one trace.
func Example() {
	exporter, err := otlptracehttp.New(context.Background()) // OTEL_EXPORTER_OTLP_ENDPOINT says where to
	if err != nil {
		log.Fatal(err)
	}
	traces := trace.NewTracerProvider(trace.WithBatcher(exporter))
	defer traces.Shutdown(context.Background())
	o := sluiceotel.Options{TracerProvider: traces}
	client := sluiceotel.NewClient(&sluice.Client{}, o)
	server := &sluice.Server{Handler: sluiceotel.Handler(func(ctx *sluice.RequestCtx) {
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		defer sluice.ReleaseRequest(req)
		defer sluice.ReleaseResponse(resp)
		req.SetRequestURI("http://127.0.0.1:8081/stock")
		if err := client.DoContext(sluiceotel.Context(ctx), req, resp); err != nil {
			ctx.Error(err.Error(), sluice.StatusBadGateway)
			return
		}
		ctx.SetBody(resp.Body())
	}, o)}
	if err := server.ListenAndServe(":8080"); err != nil {
		log.Print(err)
	}
}
