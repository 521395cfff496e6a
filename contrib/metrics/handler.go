package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/prefork"
)

// Handler returns a handler that answers with the metrics of p, those of a
// Collector and of Values, in Prometheus's text format, or in that of OpenMetrics
// if the client prefers it. It may be served by any process of p.
//
// For other metrics, or other settings, make a registry with NewCollector and
// Values and pass it to HandlerFor. Mind that the library's collectors of the
// process (NewGoCollector, NewProcessCollector) tell of the process that answers.
func Handler(p *prefork.Prefork) sluice.RequestHandler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(p), &Values{})
	return HandlerFor(registry)
}

// HandlerFor returns a handler that answers with what g gathers. If some of it
// fails the answer has the rest.
func HandlerFor(g prometheus.Gatherer) sluice.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(g, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError,
	}))
}
