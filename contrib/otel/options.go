package otel

import (
	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluicehttp/sluice"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/sluicehttp/sluice/contrib/otel"

// Options say where traces and metrics go. All fields may be zero.
type Options struct {
	// TracerProvider makes the spans; nil: the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics; nil: the global one.
	MeterProvider metric.MeterProvider
	// Propagator reads and writes the context of traces in requests; nil: traceparent and
	// tracestate (W3C Trace Context), and baggage (W3C Baggage).
	Propagator propagation.TextMapPropagator
	// Route returns the attribute http.route of a request, such as "/users/{id}", which is
	// also in the name of the span. It is called after the handler, so that a router may
	// have left it in a user value. It must have few values; "": none. nil: the path of the
	// pattern of package router, if that has found one.
	Route func(ctx *sluice.RequestCtx) string
	// Skip reports whether a request of a server has neither a span nor metrics, for
	// instance that of a probe. nil: none.
	Skip func(ctx *sluice.RequestCtx) bool
}

// An instrument is what Handler and Transport measure with.
type instrument struct {
	Options
	tracer   trace.Tracer
	duration metric.Float64Histogram
	active   metric.Int64UpDownCounter // of a server
}

// newInstrument returns the instrument of a side, "server" or "client".
func newInstrument(o Options, side string) *instrument {
	if o.TracerProvider == nil {
		o.TracerProvider = api.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = api.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	i := &instrument{Options: o, tracer: o.TracerProvider.Tracer(scope)}
	meter := o.MeterProvider.Meter(scope)
	var err error
	i.duration, err = meter.Float64Histogram("http."+side+".request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP "+side+" requests."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	if err != nil {
		api.Handle(err)
	}
	if side == "server" {
		i.active, err = meter.Int64UpDownCounter("http.server.active_requests", metric.WithUnit("{request}"),
			metric.WithDescription("Number of active HTTP server requests."))
		if err != nil {
			api.Handle(err)
		}
	}
	return i
}
