package sluice

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/client/pool"
)

// A RoundTripper sends a request on one of a HostClient's connections and reads
// the response. DefaultTransport is the implementation. Applications may set
// another one as Transport, usually to wrap DefaultTransport. HostClients call
// it.
type RoundTripper interface {
	// RoundTrip returns retry = true if another attempt on another connection may
	// succeed. The caller decides whether the request may be repeated.
	RoundTrip(hc *HostClient, req *Request, resp *Response) (retry bool, err error)
}

// RetryIfFunc reports whether request may be sent again.
type RetryIfFunc func(request *Request) bool

// RetryIfErrFunc decides whether request is sent again after an attempt failed
// with err. attempts is the number of that attempt, counted from 1.
// resetTimeout restarts the request's timeout from its full length.
type RetryIfErrFunc func(request *Request, attempts int, err error) (resetTimeout, retry bool)

// RetryIfErrUpstreamFunc is a RetryIfErrFunc that also receives the address to
// which the attempt went, or "" if it went to none.
type RetryIfErrUpstreamFunc func(request *Request, attempts int, err error, upstream string) (resetTimeout, retry bool)

// RetryStatus says when a request is sent again because the status of its response says that the
// server was too busy: 429 (RFC 6585 section 4) or 503 (RFC 9110 section 15.6.4). Such a request may have
// been processed, so RetryIf, or idempotence if it is nil, says whether it may be sent again. One
// whose body was a stream is not, and MaxIdemponentCallAttempts limits all attempts. If a request is not
// sent again, its caller gets the response. The zero value is ready to use; one RetryStatus
// may be used by several clients.
type RetryStatus struct {
	// MinPause is the pause after the first attempt; after each other one it is twice as
	// long. A random part, up to a half, is not waited, and the response's Retry-After (RFC 9110
	// section 10.2.3) is added. 0 is 100 ms.
	MinPause time.Duration

	// MaxPause is the longest pause. A caller that would wait longer, or beyond the end of its
	// call, gets the response. 0 is 10 s.
	MaxPause time.Duration

	// Budget limits the load on a server that is too busy for all: so many repetitions for each
	// 100 requests to a host, after the first ten repetitions. 0 is 10.
	Budget int
}

// ConnPoolStrategyType selects the idle connection that is used next. While
// MaxConns connections are in use, it also selects the waiting call that gets
// the next free connection.
type ConnPoolStrategyType int

const (
	// FIFO takes the connection that has been idle longest and the call that has
	// waited longest: all connections stay in use, and calls are served in the
	// order of arrival.
	FIFO ConnPoolStrategyType = iota
	// LIFO takes the connection that became idle last and the call that arrived
	// last. Connections that are not needed expire and are closed. Under
	// overload, the calls that wait longest time out (MaxConnWaitTimeout), and
	// the others are served soon.
	LIFO
)

// A HostClient sends requests to one host, or to several interchangeable
// replicas. The zero value with an Addr is ready to use. A HostClient must not
// be copied, and its fields must not be changed while it is used.
//
// Its methods may be called concurrently; Client says who owns a Request and a
// Response. The URI's host only determines the Host field. Addr alone determines
// where a request is sent.
type HostClient struct {
	noCopy noCopy

	// Addr is the host's address, "host:port", or several addresses separated by
	// commas; new connections go to them in turn. The default port is 443 with
	// IsTLS, otherwise 80. A custom dialer receives each address verbatim; the
	// port is then optional, and so is Addr.
	Addr string

	// IsTLS makes the connections use TLS. The scheme of each request must match:
	// https with IsTLS, http without.
	IsTLS bool

	// Name is the User-Agent of requests without one; "" is "sluice".
	Name string

	// NoDefaultUserAgentHeader omits the default User-Agent if Name is "".
	NoDefaultUserAgentHeader bool

	// DialContext opens connections until ctx ends; see Client.DialContext.
	DialContext func(ctx context.Context, addr string) (net.Conn, error)

	// Dial opens connections; see Client.Dial.
	Dial DialFunc

	// DialTimeout opens connections; see Client.DialTimeout.
	DialTimeout DialFuncWithTimeout

	// DialDualStack dials IPv6 and IPv4 addresses; see Client.DialDualStack.
	DialDualStack bool

	// TLSConfig is the TLS configuration for https; see Client.TLSConfig.
	TLSConfig *tls.Config

	// MaxConns is the maximum number of connections; 0 is DefaultMaxConnsPerHost.
	// SetMaxConns changes it while the HostClient is used.
	MaxConns int

	// HTTP2 says when the client speaks HTTP/2; see Client.HTTP2.
	HTTP2 HTTP2Mode

	// MaxHTTP2Conns is the maximum number of connections that speak HTTP/2; see Client.MaxHTTP2Conns.
	MaxHTTP2Conns int

	// MaxIdleConnDuration is how long an unused connection is kept; see Client.MaxIdleConnDuration.
	MaxIdleConnDuration time.Duration

	// MaxConnDuration is the maximum age of a connection; see Client.MaxConnDuration.
	MaxConnDuration time.Duration

	// MaxIdemponentCallAttempts limits how often a request is sent; see Client.MaxIdemponentCallAttempts.
	MaxIdemponentCallAttempts int

	// ReadBufferSize is the size of the read buffer in bytes; see Client.ReadBufferSize.
	ReadBufferSize int

	// WriteBufferSize is the size of the write buffer in bytes; 0 is 4096.
	WriteBufferSize int

	// ReadTimeout limits the time to read a response; see Client.ReadTimeout.
	ReadTimeout time.Duration

	// WriteTimeout limits the time to write a request; see Client.WriteTimeout.
	WriteTimeout time.Duration

	// ExpectContinueTimeout limits the wait for the status 100; see Client.ExpectContinueTimeout.
	ExpectContinueTimeout time.Duration

	// MaxResponseBodySize limits response bodies, in bytes; see Client.MaxResponseBodySize.
	MaxResponseBodySize int

	// DisableHeaderNamesNormalizing keeps the case of field names; see Client.DisableHeaderNamesNormalizing.
	DisableHeaderNamesNormalizing bool

	// DisablePathNormalizing sends paths as they were set; see Client.DisablePathNormalizing.
	DisablePathNormalizing bool

	// MaxConnWaitTimeout is how long a request waits for a connection; see Client.MaxConnWaitTimeout.
	MaxConnWaitTimeout time.Duration

	// RetryIf reports whether a failed request may be sent again; see Client.RetryIf.
	RetryIf RetryIfFunc

	// RetryIfErr decides whether a failed request is sent again; see Client.RetryIfErr.
	RetryIfErr RetryIfErrFunc

	// RetryIfErrUpstream is a RetryIfErr that also receives the address; see Client.RetryIfErrUpstream.
	RetryIfErrUpstream RetryIfErrUpstreamFunc

	// RetryStatus has requests sent again that the server was too busy for; see Client.RetryStatus.
	RetryStatus *RetryStatus

	// ConnPoolStrategy selects the idle connection that is used next; see Client.ConnPoolStrategy.
	ConnPoolStrategy ConnPoolStrategyType

	// StreamResponseBody makes the body of each response a stream; see Client.StreamResponseBody.
	StreamResponseBody bool

	// DecodeResponseBody decodes compressed responses; see Client.DecodeResponseBody.
	DecodeResponseBody bool

	// Transport sends requests; nil is DefaultTransport.
	Transport RoundTripper

	// Trace holds functions that are called while a request is sent; see Client.Trace.
	Trace *ClientTrace

	// SecureErrorLogMessage has no effect: errors never contain what the server
	// sent.
	SecureErrorLogMessage bool

	pool     pool.Pool[clientConn]
	http2    http2Pool
	pending  atomic.Int64
	lastUse  atomic.Int64  // clock.Nanos of the start of the last request
	nextAddr atomic.Uint32 // counts dialed addresses
	peers    sync.Map      // streams.Protocol of a Transport to its streams.Peers
	overdraw atomic.Int64  // hundredths of repetitions that the budget of RetryStatus lacks
	setup    hostSetup
}
