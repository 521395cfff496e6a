package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/prefork"
)

// Handler returns a handler that answers with the metrics of s, a Prefork or a Single:
// those of a Collector, of Values and of others, such as a PushCollector. It uses
// Prometheus's text format, or that of OpenMetrics if the client prefers it. Any process of
// a Prefork may serve it. It panics if two of others have the same metric.
//
// For other settings, make a registry with NewCollector and Values and pass it to HandlerFor. The library's collectors for the process (NewGoCollector,
// NewProcessCollector) report only on the process that answers.
func Handler(s prefork.Source, others ...prometheus.Collector) sluice.RequestHandler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(s), &Values{})
	registry.MustRegister(others...)
	return HandlerFor(registry)
}

// ServerHandler is Handler for a Server without worker processes, under the names of a
// fleet's metrics, with this process as its only worker. Call it once for a Server, before
// it serves.
func ServerHandler(s *sluice.Server, others ...prometheus.Collector) sluice.RequestHandler {
	return Handler(prefork.NewSingle(s), others...)
}

// HandlerFor returns a handler that answers with the metrics of g. If some of them
// fail, the response has the others.
func HandlerFor(g prometheus.Gatherer) sluice.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(g, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError,
	}))
}
