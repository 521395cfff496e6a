package sluice

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/pool"
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
// Its methods may be called concurrently. A Request or Response belongs to one
// call at a time; when the call returns, the caller owns both again. The URI's
// host only determines the Host field. Addr alone determines where a request is
// sent.
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

	// DialContext opens connections until ctx ends; the client adds TLS to the
	// connection unless it is a *tls.Conn already. DialContext takes precedence
	// over DialTimeout, and DialTimeout over Dial. If all three are nil, the
	// client dials TCP itself; see DialDualStack.
	// TCPDialer.DialContext fits here; fasthttpproxy has a function that returns
	// such a dialer.
	DialContext func(ctx context.Context, addr string) (net.Conn, error)

	// Dial opens connections. If the request ends first, Dial keeps running and
	// its connection is closed.
	Dial DialFunc

	// DialTimeout opens connections. Its timeout is the remaining time of the
	// request, at most DefaultDialTimeout. If the request ends first, DialTimeout
	// keeps running and its connection is closed.
	DialTimeout DialFuncWithTimeout

	// DialDualStack dials IPv6 and IPv4 addresses (RFC 8305). false dials IPv4
	// addresses only: a host without one fails with *net.AddrError. The field has
	// no effect on the dialers above.
	DialDualStack bool

	// TLSConfig is the TLS configuration for https; nil is the default
	// configuration. If ServerName is empty, the client sets it to the host that
	// it dials.
	TLSConfig *tls.Config

	// MaxConns is the maximum number of connections; 0 is DefaultMaxConnsPerHost.
	// SetMaxConns changes it while the HostClient is used.
	MaxConns int

	// HTTP2 says when the client speaks HTTP/2; the zero value is HTTP2Off.
	// Requests then share connections, and MaxConns, SetMaxConns and
	// ConnPoolStrategy concern connections of HTTP/1.1 only.
	HTTP2 HTTP2Mode

	// MaxHTTP2Conns is the maximum number of connections that speak
	// HTTP/2; 0 is 4. Another one is opened when all carry as many requests as the
	// server admits. If the maximum is reached, requests wait; see
	// MaxConnWaitTimeout.
	MaxHTTP2Conns int

	// MaxIdleConnDuration is how long an unused connection is kept; 0 is
	// DefaultMaxIdleConnDuration. The actual time may be up to 12.5 % shorter.
	MaxIdleConnDuration time.Duration

	// MaxConnDuration is the maximum age of a connection. An older one is closed
	// after its next response. 0 is no limit.
	MaxConnDuration time.Duration

	// MaxIdemponentCallAttempts is the maximum number of times that a request is
	// sent; 0 is DefaultMaxIdemponentCallAttempts. 1 disables retries.
	MaxIdemponentCallAttempts int

	// ReadBufferSize is the size of the read buffer in bytes, and the limit of a
	// response's head. 0 is a buffer of 4 KiB and a limit of 64 KiB.
	ReadBufferSize int

	// WriteBufferSize is the size of the write buffer in bytes; 0 is 4096.
	WriteBufferSize int

	// ReadTimeout limits the time to read a response after the request is
	// written. For a streamed body, it limits each Read. 0 is no limit. With
	// HTTP/2, exceeding it or WriteTimeout ends the stream, not the connection.
	ReadTimeout time.Duration

	// WriteTimeout limits the time to write a request. With TLS, it also limits,
	// separately, the time of dialing and handshake together; exceeding that is
	// ErrTLSHandshakeTimeout. If it is 0, there is no limit for writing, and the
	// dialer's own timeout limits dialing. A handshake never takes longer than 30
	// s.
	WriteTimeout time.Duration

	// MaxResponseBodySize limits response bodies, streamed or not, in bytes; a
	// longer body is ErrBodyTooLarge. It also limits the decoded size that
	// Response.BodyUncompressed and similar methods return. 0 is no limit.
	MaxResponseBodySize int

	// DisableHeaderNamesNormalizing sends field names as they were set, and keeps
	// received field names unchanged.
	DisableHeaderNamesNormalizing bool

	// DisablePathNormalizing sends paths as they were set, including "//" and dot
	// segments.
	DisablePathNormalizing bool

	// MaxConnWaitTimeout is how long a request waits for a connection while the
	// maximum number is in use; it then fails with ErrNoFreeConns. If it is 0, a
	// request with a context waits until the context ends, and other requests
	// fail at once.
	MaxConnWaitTimeout time.Duration

	// RetryIf reports whether a failed request may be sent again although the
	// server may have processed it. nil retries a request that is idempotent (RFC
	// 9110 section 9.2.2) or has an Idempotency-Key, unless it timed out. RetryIf
	// is not called if RetryIfErr or RetryIfErrUpstream is set.
	RetryIf RetryIfFunc

	// RetryIfErr decides whether a failed request is sent again, whatever the
	// error is.
	RetryIfErr RetryIfErrFunc

	// RetryIfErrUpstream is a RetryIfErr that also receives the address. It takes
	// precedence over RetryIfErr.
	RetryIfErrUpstream RetryIfErrUpstreamFunc

	// ConnPoolStrategy selects the idle connection that is used next, and the
	// waiting call that is served next. The zero value is FIFO.
	ConnPoolStrategy ConnPoolStrategyType

	// StreamResponseBody makes the body of each response a stream, which must be
	// read to its end or closed; see Response.StreamBody. A body is unwanted if
	// Do has no Response or if its redirect is followed. The client reads up to 8
	// KiB of an unwanted body; a longer one closes the connection. With HTTP/2, what
	// closes the connection here resets the stream.
	StreamResponseBody bool

	// Transport sends requests; nil is DefaultTransport.
	Transport RoundTripper

	// Trace holds functions that are called while a request is sent; nil calls
	// none. Hooks in a request's context (WithClientTrace) replace it.
	Trace *ClientTrace

	// SecureErrorLogMessage has no effect: errors never contain what the server
	// sent.
	SecureErrorLogMessage bool

	pool     pool.Pool[clientConn]
	http2    http2Pool
	pending  atomic.Int64
	lastUse  atomic.Int64  // clock.Nanos of the start of the last request
	nextAddr atomic.Uint32 // counts dialed addresses
	setup    hostSetup
}
