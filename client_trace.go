package sluice

import (
	"context"
	"crypto/tls"
	"net"
)

// ClientTrace has functions that are called while a request is sent, on the
// goroutine that sends it; those about dialing also on others. Each may be nil.
// They must not keep the bytes of what they are told.
type ClientTrace struct {
	// GetConn is called before a connection is looked for; addr is the host's.
	GetConn func(addr string)
	// GotConn is called when there is a connection.
	GotConn func(GotConnInfo)
	// DNSStart and DNSDone are called around looking up a host.
	DNSStart func(host string)
	DNSDone  func(addrs []net.IPAddr, err error)
	// DialStart and DialDone are called around connecting to an address: several
	// times, and overlapping, for a host with several.
	DialStart func(network, addr string)
	DialDone  func(network, addr string, err error)
	// TLSStart and TLSDone are called around a TLS handshake.
	TLSStart func()
	TLSDone  func(state tls.ConnectionState, err error)
	// WroteRequest is called when head and body are written.
	WroteRequest func(err error)
	// FirstByte is called when the first byte of a response is there.
	FirstByte func()
	// Retry is called before a request is sent again.
	Retry func(attempt int, err error)
}

// GotConnInfo is what is told of a connection.
type GotConnInfo struct {
	Conn     net.Conn // for its addresses and TLS state only
	IsReused bool     // it was used for other requests before
}

// clientTraceKey is the key of a context's ClientTrace.
type clientTraceKey struct{}

// WithClientTrace returns a context whose requests call the functions of trace,
// in place of the client's own Trace.
func WithClientTrace(ctx context.Context, trace *ClientTrace) context.Context {
	return context.WithValue(ctx, clientTraceKey{}, trace)
}

// traceOf returns the ClientTrace of ctx, nil if there is none.
func traceOf(ctx context.Context) *ClientTrace {
	trace, _ := ctx.Value(clientTraceKey{}).(*ClientTrace)
	return trace
}
