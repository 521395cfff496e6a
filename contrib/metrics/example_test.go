package metrics_test

import (
	"log"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/contrib/metrics"
	"github.com/sluicehttp/sluice/prefork"
)

// The master serves the metrics on its own address.
func ExampleHandler() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }}
	p := prefork.New(server)
	p.Admin = "127.0.0.1:9090"
	p.AdminHandler = metrics.Handler(p)
	if err := p.ListenAndServe(":8080"); err != nil {
		log.Fatal(err)
	}
}

// A separate registry, with settings for a histogram.
func ExampleHandlerFor() {
	p := prefork.New(&sluice.Server{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		metrics.NewCollector(p),
		&metrics.Values{Histograms: map[string]metrics.Histogram{
			"upload_bytes": {Bounds: prometheus.ExponentialBuckets(1<<10, 4, 8)},
		}},
		collectors.NewBuildInfoCollector(),
	)
	p.AdminHandler = metrics.HandlerFor(registry)
}

// One process serves its metrics on a private address.
func ExampleServerHandler() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }}
	figures := metrics.ServerHandler(server)
	go func() { log.Fatal(sluice.ListenAndServe("127.0.0.1:9090", figures)) }()
	log.Fatal(server.ListenAndServe(":8080"))
}
