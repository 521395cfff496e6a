package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/prefork"
)

// Handler returns a handler that answers with the metrics of p: those of a Collector
// and of Values. It uses Prometheus's text format, or that of OpenMetrics if the
// client prefers it. Any process of p may serve it.
//
// For other metrics or settings, make a registry with NewCollector and Values and
// pass it to HandlerFor. The library's collectors for the process (NewGoCollector,
// NewProcessCollector) report only on the process that answers.
func Handler(p *prefork.Prefork) sluice.RequestHandler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(p), &Values{})
	return HandlerFor(registry)
}

// HandlerFor returns a handler that answers with the metrics of g. If some of them
// fail, the response has the others.
func HandlerFor(g prometheus.Gatherer) sluice.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(g, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError,
	}))
}
