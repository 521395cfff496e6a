package streams

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// RoundTrip is one attempt of a sluice.HostClient to send a sluice.Request over p, or over its
// DefaultTransport if p says ErrElsewhere. The arguments of type any are those of
// sluice.RoundTripper, the results too. Root sets it.
var RoundTrip func(p Protocol, hostClient, request, response any) (retry bool, err error)

// ProtocolKey is the key under which a Transport has its Protocol.
type ProtocolKey struct{}

// A Transport is a sluice.RoundTripper that sends requests over a Protocol. Value has an any, because
// programs cannot name a Protocol.
type Transport interface{ Value(key any) any }

// A Protocol is one outside of the root module.
type Protocol interface {
	// NewPeers returns the connections of a HostClient, of which there is none yet.
	NewPeers(h *Host) Peers
}

// A Host is what a HostClient says of itself. It does not change.
type Host struct {
	Addrs     []string    // "host:port", at least one
	TLS       *tls.Config // as it is for HTTP/1.1; nil: the scheme is http. It belongs to the HostClient.
	HasDialer bool        // the user's function connects, which may know of a proxy
	Network   string      // "tcp" or "tcp4": the IP versions that are wanted

	Limits       h1.Limits     // of the head of a response
	MaxConns     int           // of the protocol, if requests need so many
	MaxIdle      time.Duration // how long a connection without requests is kept
	MaxAge       time.Duration // how long a connection gets requests; 0: no limit
	MaxWait      time.Duration // how long a request waits if all connections are full; 0: not
	WriteTimeout time.Duration // which also bounds connecting; 0: no bound

	// OpenTCP makes the HostClient have an idle connection over TCP.
	OpenTCP func(ctx context.Context) error
}

// ErrElsewhere is Acquire's error for a request that is not for this protocol.
var ErrElsewhere = errors.New("sluice: the request is for another protocol")

// A Call is the part of a request's call that Acquire needs.
type Call struct {
	*clock.Bounds
	Phase *clock.Phase // of which an error tells
	Trace *dial.Trace  // nil: none

	NeedsHTTP1 bool // the request cannot be sent over this protocol
	IsLast     bool // its connection gets no other requests after it
}

// Peers are the connections of a HostClient. Their methods may be called concurrently.
type Peers interface {
	// Acquire returns a Stream with a place on a connection, which it may open. The error is
	// ErrElsewhere, pool.ErrFull, the end of the call, or why no connection could be opened.
	Acquire(call Call) (Stream, error)
	// Announced gets the lines of Alt-Svc (RFC 7838) of a response over TLS, and its Age (RFC
	// 9111 section 5.1), which is empty if it has none.
	Announced(lines [][]byte, age []byte)
	// Misdirected says that a response over this protocol had the status 421, and reports
	// whether the request is to be sent again: not over this protocol any more.
	Misdirected() bool
	// CloseIdle closes the connections without requests.
	CloseIdle()
	// Counts returns the number of connections, and of those without requests.
	Counts() (open, idle int)
}

// A Stream carries one request and its response. Its user calls Params first, then Do once, and
// Release last.
type Stream interface {
	// Params returns what Do needs to know. They are empty.
	Params() *Params
	// Do sends the request and receives the response. It returns nil when the response is
	// complete or, if it is streamed, when its head has come. After any other result, the
	// stream has ended.
	Do() error
	// Failure tells what the error of Do means.
	Failure() Failure
	// Read reads a streamed body. It returns io.EOF after a complete one. It may be called
	// concurrently with Close.
	Read(p []byte) (int, error)
	// Close ends a streamed body, and the request if it is not complete.
	Close() error
	// Release gives the Stream and its place back.
	Release()
	// Tunnel returns the stream as a net.Conn if the response to Params.IsConnect was 2xx, else
	// nil. Call it at most once after Do, and then the Close of the net.Conn, which is in no pool,
	// in place of Close and Release.
	Tunnel() net.Conn

	// NetConn returns a net.Conn that tells only addresses and the state of TLS.
	NetConn() net.Conn
	// Upstream returns the address that was dialed.
	Upstream() string
	// IsReused reports whether the connection carries other requests, or has.
	IsReused() bool
}
