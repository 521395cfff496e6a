package sluice

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/sluicehttp/sluice/internal/body"
)

// ClientTrace holds functions that are called while a request is sent. They run
// on the goroutine that sends the request; the functions for dialing may also
// run on other goroutines. Each may be nil. They must not retain the bytes of
// their arguments.
type ClientTrace struct {
	// GetConn is called before the client looks for a connection; addr is the
	// host's address.
	GetConn func(addr string)
	// GotConn is called after the client has got a connection.
	GotConn func(GotConnInfo)
	// DNSStart and DNSDone are called before and after a host is looked up.
	DNSStart func(host string)
	DNSDone  func(addrs []net.IPAddr, err error)
	// DialStart and DialDone are called before and after the client connects to
	// an address. For a host with several addresses, they are called several
	// times, and the calls may overlap.
	DialStart func(network, addr string)
	DialDone  func(network, addr string, err error)
	// TLSStart and TLSDone are called before and after a TLS handshake.
	TLSStart func()
	TLSDone  func(state tls.ConnectionState, err error)
	// Wait100Continue is called when the head of a request with "Expect: 100-continue" is
	// written, or with HTTP/2 and HTTP/3 passed on for writing, and its body begins to wait;
	// see Client.ExpectContinueTimeout. It may run on another goroutine.
	Wait100Continue func()
	// Got100Continue is called when the status 100 comes that the body waits for, before
	// the body is sent.
	Got100Continue func()
	// WroteRequest is called after the head and the body are written, or after
	// writing failed with err. With HTTP/2, where requests are written together, it
	// is called when the request is passed on for writing, and err is nil.
	WroteRequest func(err error)
	// FirstByte is called after the first byte of a response has arrived. With
	// HTTP/2, it is called after its head if the body is streamed, otherwise after
	// all of it.
	FirstByte func()
	// Retry is called before a request is sent again. attempt is the number of
	// the attempt that failed with err, counted from 1.
	Retry func(attempt int, err error)
}

// GotConnInfo describes a connection to ClientTrace.GotConn.
type GotConnInfo struct {
	Conn     net.Conn // use it only for its addresses and TLS state, and do not retain it
	IsReused bool     // other requests use it or have used it
}

// clientTraceKey is the key of a context's ClientTrace.
type clientTraceKey struct{}

// WithClientTrace returns a context with trace. Requests with that context call
// the functions of trace instead of those of the client's own Trace.
func WithClientTrace(ctx context.Context, trace *ClientTrace) context.Context {
	return context.WithValue(ctx, clientTraceKey{}, trace)
}

// traceOf returns the ClientTrace of ctx, nil if there is none.
func traceOf(ctx context.Context) *ClientTrace {
	trace, _ := ctx.Value(clientTraceKey{}).(*ClientTrace)
	return trace
}

// gotConn calls GotConn, if there is one. giveBack runs if it does not return.
func (trace *ClientTrace) gotConn(conn net.Conn, isReused bool, giveBack func()) {
	if trace.GotConn != nil {
		guarded(func() { trace.GotConn(GotConnInfo{Conn: conn, IsReused: isReused}) }, giveBack)
	}
}

// guarded calls a hook. If it panics, or ends the goroutine, undo runs.
func guarded(hook, undo func()) {
	hasReturned := false
	defer func() {
		if !hasReturned {
			undo()
		}
	}()
	hook()
	hasReturned = true
}

// newGate returns the Gate of a body that waits for the status 100.
func (trace *ClientTrace) newGate() *body.Gate {
	gate := body.NewGate()
	if trace != nil {
		gate.Waits, gate.Continued = trace.Wait100Continue, trace.Got100Continue
	}
	return gate
}

// firstByte calls FirstByte of trace, if there is one. If it does not return, the body of resp
// is closed.
func (trace *ClientTrace) firstByte(resp *Response) {
	if trace != nil && trace.FirstByte != nil {
		guarded(trace.FirstByte, func() { _ = resp.CloseBodyStream() })
	}
}
