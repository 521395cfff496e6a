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

// A Client sends requests and reads the responses, by HTTP/1.1 (RFC 9110 and
// 9112). It keeps connections to each host for further requests. The zero value
// is ready to use. A Client must not be copied, and its fields must not be
// changed while it is used.
//
// Its methods may be called concurrently. A Request or Response belongs to one
// call at a time; when the call returns, with or without an error, it is the
// caller's again, and nothing uses it any more. Redirects are followed by the
// Get and Post methods and DoRedirects only.
type Client struct {
	noCopy noCopy

	// Name is the User-Agent of requests that have none; "" is "sluice".
	Name string

	// NoDefaultUserAgentHeader leaves User-Agent out of requests that have
	// none, if Name is "".
	NoDefaultUserAgentHeader bool

	// DialContext opens connections, until ctx ends; TLS is added to what it
	// returns. It is preferred to DialTimeout, and that to Dial. All nil is
	// DialContext of this package, which knows TCP. TCPDialer has a method for
	// it, and fasthttpproxy a function that makes one.
	DialContext func(ctx context.Context, addr string) (net.Conn, error)

	// Dial opens connections. A request that ends before it returns leaves it to
	// itself.
	Dial DialFunc

	// DialTimeout opens connections, and is told how much time there is for it.
	// A request that ends before it returns leaves it to itself.
	DialTimeout DialFuncWithTimeout

	// DialDualStack is without effect: hosts are dialed by IPv6 and IPv4 anyhow
	// (RFC 8305).
	DialDualStack bool

	// TLSConfig is for https; nil is the default configuration. The server's
	// name is added where it is missing.
	TLSConfig *tls.Config

	// MaxConnsPerHost bounds the connections to one host; 0 is
	// DefaultMaxConnsPerHost.
	MaxConnsPerHost int

	// MaxIdleConnDuration is how long a connection is kept without use; 0 is
	// DefaultMaxIdleConnDuration. It may be an eighth less.
	MaxIdleConnDuration time.Duration

	// MaxConnDuration is the age at which a connection is closed behind its next
	// response; 0: none.
	MaxConnDuration time.Duration

	// MaxIdemponentCallAttempts is how often a request is sent at most; 0 is
	// DefaultMaxIdemponentCallAttempts, 1 repeats nothing.
	MaxIdemponentCallAttempts int

	// ReadBufferSize is the size of the buffer for reading, in bytes, and the
	// bound of a response's head; 0: a buffer of 4 KiB, and heads of up to 64
	// KiB.
	ReadBufferSize int

	// WriteBufferSize is the size of the buffer for writing, in bytes; 0 is
	// 4096.
	WriteBufferSize int

	// ReadTimeout bounds reading a response from the time when the request is
	// written; of a streamed body, each Read. 0: no bound.
	ReadTimeout time.Duration

	// WriteTimeout bounds writing a request, and before that dialing and the
	// TLS handshake together, whose error is ErrTLSHandshakeTimeout. 0: no bound
	// but the dialer's, and 30 s for a handshake.
	WriteTimeout time.Duration

	// MaxResponseBodySize bounds the bodies of responses, in bytes, whether they
	// are streams or not; a longer one is ErrBodyTooLarge. It also bounds what
	// Response.BodyUncompressed and the like decode a body to. 0: no bound.
	MaxResponseBodySize int

	// DisableHeaderNamesNormalizing leaves the names of fields as they are set
	// and as they come.
	DisableHeaderNamesNormalizing bool

	// DisablePathNormalizing sends paths as they are set, also with "//" and dot
	// segments.
	DisablePathNormalizing bool

	// MaxConnWaitTimeout is how long a request waits for a connection if as many
	// as may be are in use; then it fails with ErrNoFreeConns. 0: a request
	// with a context waits until that ends, others don't wait.
	MaxConnWaitTimeout time.Duration

	// RetryIf tells whether a request that failed may be sent again although
	// the server may have seen it; nil: if it is idempotent (RFC 9110 section
	// 9.2.2) or has an Idempotency-Key, and no time-out has passed. It is not
	// asked where RetryIfErr is set.
	RetryIf RetryIfFunc

	// RetryIfErr decides whether a request that failed is sent again, whatever
	// the reason was.
	RetryIfErr RetryIfErrFunc

	// RetryIfErrUpstream is a RetryIfErr that is told the address, and is
	// preferred to it.
	RetryIfErrUpstream RetryIfErrUpstreamFunc

	// ConnPoolStrategy says which idle connection is used next, and which call
	// that waits for one is served next.
	ConnPoolStrategy ConnPoolStrategyType

	// StreamResponseBody makes the body of each response a stream, which must
	// be read to its end or closed; see Response.StreamBody. An unwanted body,
	// of Do without a Response or of a redirect that is followed, is read up to
	// 8 KiB; a longer one closes the connection.
	StreamResponseBody bool

	// Transport sends requests; nil is DefaultTransport.
	Transport RoundTripper

	// Trace is told what happens to requests; nil: nobody is. A request's own
	// hooks (WithClientTrace) come instead of it.
	Trace *ClientTrace

	// ConfigureClient is called with the HostClient for a host before that is
	// used first, and may change it. Its error is that of the request.
	ConfigureClient func(hc *HostClient) error

	mu       sync.RWMutex
	hosts    map[string]*HostClient // by the URI's host
	tlsHosts map[string]*HostClient // for https
	lastDrop int64                  // clock.Nanos of the last dropUnused
}
