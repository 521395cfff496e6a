package otel

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/route"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// contextKey is the key of the user value that Context returns.
type contextKey struct{}

// Context returns the context of a request's span, with its baggage; ctx itself without
// Handler. Like ctx, it must not be used after the handler has returned.
func Context(ctx *sluice.RequestCtx) context.Context {
	if c, ok := ctx.UserValue(contextKey{}).(context.Context); ok {
		return c
	}
	return ctx
}

// Handler returns a handler that calls h within a span of kind server, whose parent is that
// of the request's traceparent. It records http.server.request.duration and
// http.server.active_requests.
//
// The span ends when h has returned. The span of a WebSocket of package websocket, or of
// server-sent events of package sse, ends with the connection or stream, or when that moves
// to another process; its duration metric ends with the handshake. A status of 500 or more
// makes the span an error, and so does a panic, which goes on.
func Handler(h sluice.RequestHandler, o Options) sluice.RequestHandler {
	i := newInstrument(o, "server")
	return func(ctx *sluice.RequestCtx) {
		if i.Skip != nil && i.Skip(ctx) {
			h(ctx)
			return
		}
		i.serve(ctx, h)
	}
}

// serve calls h within a span.
func (i *instrument) serve(ctx *sluice.RequestCtx, h sluice.RequestHandler) {
	start := ctx.Time()
	method, scheme := methodOf(ctx.Method()), "http"
	if ctx.IsTLS() {
		scheme = "https"
	}
	measured := []attribute.KeyValue{keyMethod.String(method), keyScheme.String(scheme)}
	active := metric.WithAttributeSet(attribute.NewSet(measured...))
	inner, span := i.begin(ctx, method, scheme)
	i.active.Add(inner, 1, active)
	ctx.SetUserValue(contextKey{}, inner)
	watcher := &upgrade.Watcher{Ended: func(err error) { endConnection(span, err) }}
	ctx.SetUserValue(upgrade.WatchKey{}, watcher)
	// Other goroutines may own ctx after h, on which inner is built.
	detached := trace.ContextWithSpan(context.Background(), span)
	hasReturned := false
	defer func() {
		result := resultOf(ctx, hasReturned)
		goesOn := watcher.Expected && hasReturned && result.outlives()
		route := ""
		if !result.isLate {
			route = i.routeOf(ctx)
		}
		result.describe(span, method, route, !goesOn)
		measured = append(measured, keyStatus.Int(result.status), keyProtocol.String(result.protocol))
		if route != "" {
			measured = append(measured, keyRoute.String(route))
		}
		if result.errorType != "" {
			measured = append(measured, keyErrorType.String(result.errorType))
		}
		i.duration.Record(detached, time.Since(start).Seconds(), metric.WithAttributeSet(attribute.NewSet(measured...)))
		i.active.Add(detached, -1, active)
	}()
	h(ctx)
	hasReturned = true
}

// routeOf returns the attribute http.route of a request, empty if it has none.
func (i *instrument) routeOf(ctx *sluice.RequestCtx) string {
	if i.Route != nil {
		return i.Route(ctx)
	}
	if m, ok := ctx.UserValue(route.Key{}).(*route.Match); ok {
		return m.Path()
	}
	return ""
}

// begin starts the span of a request, which result.describe or the end of its connection ends.
func (i *instrument) begin(ctx *sluice.RequestCtx, method, scheme string) (inner context.Context, span trace.Span) {
	parent := i.Propagator.Extract(ctx, headers{&ctx.Request.Header})
	return i.tracer.Start(parent, spanName(method, ""), trace.WithTimestamp(ctx.Time()), //nolint:spancheck // the caller has it ended
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(requestAttributes(ctx, method, scheme)...))
}

// requestAttributes returns what is known of a request at its beginning.
func requestAttributes(ctx *sluice.RequestCtx, method, scheme string) []attribute.KeyValue {
	header := &ctx.Request.Header
	all := make([]attribute.KeyValue, 0, 14)
	all = append(all, keyMethod.String(method), keyScheme.String(scheme), keyPath.String(string(ctx.Path())))
	if method == otherMethod {
		all = append(all, keyMethodOriginal.String(string(ctx.Method())))
	}
	if query := ctx.URI().QueryString(); len(query) > 0 {
		all = append(all, keyQuery.String(string(query)))
	}
	all = appendHost(all, string(ctx.Host()))
	all = append(all, keyProtocol.String(protocolVersion(header.Protocol())))
	if agent := header.UserAgent(); len(agent) > 0 {
		all = append(all, keyUserAgent.String(string(agent)))
	}
	if address, port, ok := peerOf(ctx.RemoteAddr()); ok {
		all = append(all, keyClient.String(address), keyPeer.String(address), keyPeerPort.Int(port))
	}
	return all
}

// A result is what became of a request.
type result struct {
	status    int
	protocol  string
	errorType string // empty: no failure
	isLate    bool   // other goroutines may use the RequestCtx
	isStream  bool   // the response has the type of server-sent events
}

// resultOf returns the result of a handler that has returned or panics.
func resultOf(ctx *sluice.RequestCtx, hasReturned bool) (r result) {
	r.protocol = protocolVersion(ctx.Request.Header.Protocol())
	late := ctx.LastTimeoutErrorResponse()
	switch {
	case !hasReturned:
		r.status, r.errorType = sluice.StatusInternalServerError, "panic"
		return r
	case late != nil:
		r.status, r.isLate = late.StatusCode(), true
	default:
		r.status = ctx.Response.StatusCode()
		r.isStream = string(ctx.Response.Header.ContentType()) == "text/event-stream"
	}
	if r.status >= sluice.StatusInternalServerError {
		r.errorType = strconv.Itoa(r.status)
	}
	return r
}

// outlives reports whether the response begins a WebSocket or a stream.
func (r *result) outlives() bool {
	return r.status == sluice.StatusSwitchingProtocols || r.status == sluice.StatusOK && r.isStream
}

// describe writes the result to the span, and ends it.
func (r *result) describe(span trace.Span, method, route string, ends bool) {
	span.SetAttributes(keyStatus.Int(r.status))
	if route != "" {
		span.SetName(spanName(method, route))
		span.SetAttributes(keyRoute.String(route))
	}
	if r.errorType != "" {
		span.SetAttributes(keyErrorType.String(r.errorType))
		span.SetStatus(codes.Error, "")
	}
	if ends {
		span.End()
	}
}

// endConnection ends the span of a WebSocket or a stream. err is why that has ended.
func endConnection(span trace.Span, err error) {
	var closed *websocket.CloseError
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, sse.ErrGoingAway):
	case errors.As(err, &closed):
		span.SetAttributes(attribute.Int("websocket.close_code", int(closed.Code)))
		switch closed.Code {
		case websocket.CodeNormal, websocket.CodeGoingAway, websocket.CodeNone, websocket.CodeServiceRestart:
		default:
			span.SetStatus(codes.Error, "")
			span.SetAttributes(keyErrorType.String(strconv.Itoa(int(closed.Code))))
		}
	default:
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(keyErrorType.String(errorType(err)))
	}
	span.End()
}
