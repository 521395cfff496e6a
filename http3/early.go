package http3

import (
	"context"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
)

// isProven reports whether the handshake of a connection is complete. Before that, what has
// come may be a repetition of what an attacker has recorded (RFC 8470).
func isProven(q *quic.Conn) bool {
	select {
	case <-q.HandshakeComplete():
		return true
	default:
		return false
	}
}

// isSafe reports whether requests of a method are repeated without harm if they have no
// content.
func isSafe(method []byte) bool {
	switch string(method) {
	case sluice.MethodGet, sluice.MethodHead, sluice.MethodOptions:
		return true
	}
	return false
}

// awaitProof is called with a valid head. Requests that may be repeated without harm go on in
// early data, and tell their handler; all others wait. An error means that the connection ends.
func (x *exchange) awaitProof() error {
	q := x.conn.quic
	if !x.conn.serving.config.EarlyData || isProven(q) {
		return nil
	}
	hasContent := x.input != inputEnded || x.from != x.to
	if !hasContent && isSafe(x.scratch.head.Method.In(x.requestHeader.Table.Raw())) {
		x.facts.IsEarly = true
		x.request.Begin(&x.facts, x.start)
		return nil
	}
	x.conn.workers.Exempt(1)
	defer x.conn.workers.Exempt(-1)
	select {
	case <-q.HandshakeComplete():
	case <-q.Context().Done():
	}
	if q.Context().Err() != nil {
		return context.Cause(q.Context())
	}
	return nil
}
