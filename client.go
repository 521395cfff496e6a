package sluice

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Defaults of clients.
const (
	// DefaultMaxConnsPerHost is the default of Client.MaxConnsPerHost and
	// HostClient.MaxConns.
	DefaultMaxConnsPerHost = 512

	// DefaultMaxIdleConnDuration is the default of MaxIdleConnDuration.
	DefaultMaxIdleConnDuration = 10 * time.Second

	// DefaultMaxIdemponentCallAttempts is the default of
	// MaxIdemponentCallAttempts.
	DefaultMaxIdemponentCallAttempts = 5
)

// A Client sends requests and reads the responses over HTTP/1.1 (RFC 9110 and
// 9112), or over HTTP/2 (RFC 9113) if its field HTTP2 says so. It keeps connections to each host and reuses them. The zero value is
// ready to use. A Client must not be copied, and its fields must not be changed
// while it is used.
//
// Its methods may be called concurrently. A Request or Response belongs to one
// call at a time. When the call returns, with or without an error, the caller
// owns both again, and the Client retains no reference to them. The exception
// is a response body that is a stream; see StreamResponseBody. Only the Get and
// Post methods and DoRedirects follow redirects.
type Client struct {
	noCopy noCopy

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

	// MaxConnsPerHost is the maximum number of connections to one host; 0 is
	// DefaultMaxConnsPerHost.
	MaxConnsPerHost int

	// HTTP2 says when the client speaks HTTP/2; the zero value is HTTP2Off.
	// Requests then share connections, and MaxConnsPerHost (MaxConns of a HostClient),
	// SetMaxConns and ConnPoolStrategy concern connections of HTTP/1.1 only.
	HTTP2 HTTP2Mode

	// MaxHTTP2Conns is the maximum number of connections to one host that speak
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
	// With HTTP/1.1, one of 10 s or more may be exceeded by a 32nd: the deadline of a
	// connection is not set for each request.
	ReadTimeout time.Duration

	// WriteTimeout limits the time to write a request. With TLS, it also limits,
	// separately, the time of dialing and handshake together; exceeding that is
	// ErrTLSHandshakeTimeout. If it is 0, there is no limit for writing, and the
	// dialer's own timeout limits dialing. A handshake never takes longer than 30
	// s.
	WriteTimeout time.Duration

	// ExpectContinueTimeout limits how long a request with "Expect: 100-continue" waits for
	// the status 100 before it sends its body (RFC 9110 section 10.1.1); 0 is 1 s. A request
	// that is answered before sends no body; with HTTP/1.1, its connection is then
	// closed. A negative value sends the body at once.
	ExpectContinueTimeout time.Duration

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

	// RetryStatus has requests sent again that the server was too busy for; nil
	// returns such responses at once.
	RetryStatus *RetryStatus

	// ConnPoolStrategy selects the idle connection that is used next, and the
	// waiting call that is served next. The zero value is FIFO.
	ConnPoolStrategy ConnPoolStrategyType

	// StreamResponseBody makes the body of each response a stream, which must be
	// read to its end or closed; see Response.StreamBody. A body is unwanted if
	// Do has no Response or if its redirect is followed. The client reads up to 8
	// KiB of an unwanted body; a longer one closes the connection. With HTTP/2, what
	// closes the connection here resets the stream.
	StreamResponseBody bool

	// DecodeResponseBody has requests ask for compressed responses, and decodes these.
	// A request without Accept-Encoding and Range, unless it is HEAD or CONNECT, is
	// sent with "Accept-Encoding: gzip, deflate, br, zstd". Its response has no
	// Content-Encoding then, and a Content-Length of the decoded body or, if that is a
	// stream, none. The trailer fields stay. MaxResponseBodySize limits the body as it
	// was sent and what it decodes to. A body that is not what its Content-Encoding
	// says is an error, of the call or, if it is a stream, of reading it.
	//
	// Responses to other requests stay as they were sent, and so do those with status
	// 206, with another coding, or with more than three. Response.DecodeBody decodes
	// one response.
	DecodeResponseBody bool

	// Transport sends requests; nil is DefaultTransport.
	Transport RoundTripper

	// Trace holds functions that are called while a request is sent; nil calls
	// none. Hooks in a request's context (WithClientTrace) replace it.
	Trace *ClientTrace

	// ConfigureClient is called with the HostClient of a host before its first
	// use, and may change the fields. If it returns an error, the request fails
	// with that error.
	ConfigureClient func(hc *HostClient) error

	mu       sync.RWMutex
	hosts    map[string]*HostClient // for http, by the URI's host
	tlsHosts map[string]*HostClient // for https, by the URI's host
	lastDrop int64                  // clock.Nanos of the last dropUnused
}
