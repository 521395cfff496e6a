package otel

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluicehttp/sluice"
)

// A Doer sends requests. The clients of package sluice that have DoContext implement it, and
// so does Client.
type Doer interface {
	// DoContext sends req and reads the response into resp, until ctx ends.
	DoContext(ctx context.Context, req *sluice.Request, resp *sluice.Response) error
}

// A Client sends each request of another client within a span of kind client, and records
// http.client.request.duration. Make it with NewClient.
type Client struct {
	doer       Doer
	instrument *instrument
}

var _ Doer = (*Client)(nil)

// NewClient returns a Client over d. Route and Skip of o are not used.
func NewClient(d Doer, o Options) *Client {
	return &Client{doer: d, instrument: newInstrument(o, "client")}
}

// DoContext sends req as DoContext of the client below does, with its errors. The span is a
// child of that in ctx; within a server's handler, pass Context(ctx). The request gets the
// fields traceparent, tracestate and baggage. The span ends when the call returns: it
// includes attempts that are repeated, but not the time in which a streamed body is read. A
// status of 400 or more makes it an error, as an error does. resp may be nil; then
// the status is not known.
func (c *Client) DoContext(ctx context.Context, req *sluice.Request, resp *sluice.Response) error {
	i := c.instrument
	start := time.Now()
	method, uri := methodOf(req.Header.Method()), req.URI()
	measured := make([]attribute.KeyValue, 0, 7)
	measured = append(measured, keyMethod.String(method), keyScheme.String(string(uri.Scheme())))
	measured = appendTarget(measured, string(uri.Host()), string(uri.Scheme()))
	about := append(measured[:len(measured):len(measured)], keyFull.String(redacted(uri)))
	if method == otherMethod {
		about = append(about, keyMethodOriginal.String(string(req.Header.Method())))
	}
	inner, span := i.tracer.Start(ctx, spanName(method, ""), trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...))
	defer span.End()
	i.Propagator.Inject(inner, headers{&req.Header})
	err := c.doer.DoContext(inner, req, resp)
	var end []attribute.KeyValue
	switch {
	case err != nil:
		end = append(end, keyErrorType.String(errorType(err)))
		span.SetStatus(codes.Error, err.Error())
	case resp != nil:
		status := resp.StatusCode()
		end = append(end, keyStatus.Int(status), keyProtocol.String(protocolVersion(resp.Header.Protocol())))
		if status >= sluice.StatusBadRequest {
			end = append(end, keyErrorType.String(strconv.Itoa(status)))
			span.SetStatus(codes.Error, "")
		}
		if address, port, ok := peerOf(resp.RemoteAddr()); ok {
			span.SetAttributes(keyPeer.String(address), keyPeerPort.Int(port))
		}
	}
	span.SetAttributes(end...)
	i.duration.Record(inner, time.Since(start).Seconds(), metric.WithAttributeSet(attribute.NewSet(append(measured, end...)...)))
	return err
}

// appendTarget appends server.address and server.port, which clients must have.
func appendTarget(all []attribute.KeyValue, host, scheme string) []attribute.KeyValue {
	before := len(all)
	all = appendHost(all, host)
	if len(all) == before+1 {
		port := 80
		if scheme == "https" {
			port = 443
		}
		all = append(all, keyServerPort.Int(port))
	}
	return all
}

// redacted returns a URI without its credentials and fragment.
func redacted(uri *sluice.URI) string {
	full := string(uri.Scheme()) + "://"
	if len(uri.Username())+len(uri.Password()) > 0 {
		full += "REDACTED:REDACTED@"
	}
	return full + string(uri.Host()) + string(uri.RequestURI())
}
