package sluice

import (
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// RequestHandler processes one request. It reads ctx.Request and fills
// ctx.Response. It may block.
//
// The handler owns ctx, and every slice that its methods return, until it
// returns. Then the server reuses them for another request. If other goroutines
// still use ctx, the handler must call ctx.TimeoutError before it returns. A
// HijackHandler owns ctx until it returns.
type RequestHandler func(ctx *RequestCtx)

// ServeHandler serves a whole connection whose protocol was negotiated by ALPN
// (Server.NextProto). The server closes the connection when it returns.
type ServeHandler func(c net.Conn) error

// HijackHandler takes a connection over from the server (RequestCtx.Hijack).
// The server closes the connection when it returns, unless
// Server.KeepHijackedConns is set.
type HijackHandler func(c net.Conn)

// FormValueFunc returns a form value for RequestCtx.FormValue. The returned
// bytes have the lifetime of ctx.
type FormValueFunc func(ctx *RequestCtx, key string) []byte

// Logger receives the log lines of a server. *log.Logger implements it.
type Logger interface {
	// Printf has the semantics of log.Printf.
	Printf(format string, args ...any)
}

// RequestConfig overrides limits for one request; Server.HeaderReceived returns
// it. A zero field keeps the server's value.
type RequestConfig struct {
	// ReadTimeout bounds the time to receive the rest of the request, counted
	// from its first byte.
	ReadTimeout time.Duration
	// WriteTimeout bounds each blocked write of the response.
	WriteTimeout time.Duration
	// MaxRequestBodySize bounds the body, in bytes.
	MaxRequestBodySize int
}

// A ConnState is a state of a connection, for Server.ConnState.
type ConnState int

const (
	// StateNew: the connection is accepted, and nothing has been received yet.
	// StateActive or StateClosed follows.
	StateNew ConnState = iota
	// StateActive: the first byte of a request has been received. StateIdle,
	// StateHijacked or StateClosed follows.
	StateActive
	// StateIdle: the response is written, and the connection waits for another
	// request. StateActive or StateClosed follows.
	StateIdle
	// StateHijacked: a hijack handler has taken the connection over. This state is
	// final.
	StateHijacked
	// StateClosed: the connection is closed. This state is final.
	StateClosed
)

var connStateNames = [...]string{"new", "active", "idle", "hijacked", "closed"}

// String returns the name that net/http uses for the state.
func (s ConnState) String() string {
	if s < 0 || int(s) >= len(connStateNames) {
		return ""
	}
	return connStateNames[s]
}

// DefaultConcurrency is the limit of connections that a Server serves at once
// when Server.Concurrency is zero or negative.
const DefaultConcurrency = 256 * 1024

// DefaultMaxRequestBodySize is the limit of a request body, in bytes, when
// Server.MaxRequestBodySize is zero or negative.
const DefaultMaxRequestBodySize = 4 * 1024 * 1024

// A Server serves HTTP/1.1, and HTTP/2 unless HTTP2.Disable is set; module http3 serves HTTP/3
// for it. The zero value with a Handler is ready to use. Do not change the fields while it
// serves. The methods may be called from any goroutine.
type Server struct {
	noCopy noCopy

	// Handler handles the requests. It is required.
	Handler RequestHandler

	// ErrorHandler answers requests that do not reach Handler: malformed or
	// oversized requests, and requests that time out. The status of the response
	// is already set as RFC 9110 requires. The server closes the connection
	// afterwards. By default the server sends the status with a description.
	//
	// Examine err with errors.Is and errors.As. It is *ErrSmallBuffer and
	// ErrSmallReadBuffer for a head over its limit, ErrBodyTooLarge for a body
	// over its limit, a net.Error with Timeout() and os.ErrDeadlineExceeded for a
	// time-out, io.ErrUnexpectedEOF for a truncated request, and ErrBrokenChunk
	// for a malformed chunk. Any other error describes the violation.
	ErrorHandler func(ctx *RequestCtx, err error)

	// HeaderReceived is called when a head is complete, before the body is read.
	// It may change the limits for this request.
	HeaderReceived func(header *RequestHeader) RequestConfig

	// ContinueHandler decides whether the server accepts the body of a request
	// that expects 100-continue (RFC 9110 section 10.1.1). If it returns false,
	// the server answers 417. By default the server accepts every body.
	ContinueHandler func(header *RequestHeader) bool

	// ExpectHandler is like ContinueHandler, but returns a status: StatusContinue
	// accepts the body, and any other status refuses it and is the answer. It may
	// fill ctx.Response. If both are set, the server calls only ExpectHandler.
	ExpectHandler func(ctx *RequestCtx) int

	// FormValueFunc replaces the lookup of RequestCtx.FormValue.
	FormValueFunc FormValueFunc

	// ConnState is called when a connection changes state.
	ConnState func(conn net.Conn, state ConnState)

	// Name is the value of the Server field; "sluice" if empty.
	Name string

	// Concurrency limits the connections served at once. The server answers
	// further connections 503 and closes them. DefaultConcurrency if zero or
	// negative.
	Concurrency int

	// MaxConnsPerIP limits the connections of one client: of an IPv4 address, or
	// of an IPv6 network (see IPv6ClientPrefix). The server answers further
	// connections 429 and closes them. No limit if zero, and for connections
	// without an IP address, such as those of unix sockets.
	MaxConnsPerIP int

	// IPv6ClientPrefix is the number of leading bits of an IPv6 address that
	// identify one client for MaxConnsPerIP. 64 if zero, because an IPv6 client
	// has 2^64 addresses or more. 128 counts each address separately; 56 or 48
	// counts each network that a provider assigns to a site. An IPv4-mapped
	// address counts as the IPv4 address.
	IPv6ClientPrefix int

	// MaxRequestsPerConn limits the requests served on one connection. The
	// response to the last one has "Connection: close". No limit if zero.
	MaxRequestsPerConn int

	// MaxRequestBodySize limits request bodies, in bytes. The server answers 413
	// as soon as it knows that a body is larger. The limit also applies to the
	// output of decoding a body (Request.BodyUncompressed and its relatives,
	// RequestCtx.MultipartForm). DefaultMaxRequestBodySize if zero or negative.
	//
	// With StreamRequestBody, the limit does not apply to the stream itself, nor
	// to a form that is read from the stream without decoding. It does apply to
	// the bytes that Request.Body and its relatives collect.
	MaxRequestBodySize int

	// MaxBodyMemory limits the total memory, in bytes, of all request bodies that
	// the server is receiving. A request that would exceed it is answered 503. No
	// limit if zero.
	MaxBodyMemory int64

	// MinBodyRate is the lowest rate, in bytes per second, at which a client may
	// send a body. After five seconds of grace, a slower client is answered 408.
	// No limit if zero.
	MinBodyRate int

	// ReadBufferSize limits the head of a request, including the request line, in
	// bytes. The server answers 414 or 431 to a larger head. If zero, the limits
	// are 8 KiB for the request line and 64 KiB for the head. It is also the size
	// of the read buffer of an active connection.
	ReadBufferSize int

	// WriteBufferSize is the number of response bytes that the server collects
	// before it writes them, for pipelined requests and streamed bodies. For
	// streams, 4 KiB if zero.
	WriteBufferSize int

	// ReadTimeout bounds the time from the first byte of a request to its last
	// one. No limit if zero. It also bounds TLS handshakes, whose limit is 30 s if
	// it is zero.
	ReadTimeout time.Duration

	// WriteTimeout bounds each blocked write, from the moment at which it blocks.
	// No limit if zero.
	WriteTimeout time.Duration

	// IdleTimeout bounds the wait for a request on a connection, including the
	// first one. ReadTimeout if zero.
	IdleTimeout time.Duration

	// MaxKeepaliveDuration limits the lifetime of a connection: the connection
	// closes after the response to the first request that begins after this time.
	// No limit if zero.
	MaxKeepaliveDuration time.Duration

	// MaxIdleWorkerDuration is how long an idle worker stack is kept for the next
	// request. Ten seconds if zero.
	MaxIdleWorkerDuration time.Duration

	// TCPKeepalivePeriod is the interval of TCP keep-alive probes when
	// TCPKeepalive is set. If zero, the default of package net applies (15 s).
	TCPKeepalivePeriod time.Duration

	// Loops is the number of event loops of EngineEpoll, which wait for
	// connections and pass them to the goroutines that run handlers. If zero or
	// negative, it is half of GOMAXPROCS, rounded up. More than 128 count as 128.
	// EnginePerConn has no loops.
	Loops int

	// MaxWorkers limits the goroutines that run handlers on each loop of
	// EngineEpoll. Further requests wait for a goroutine, in order of arrival.
	// With a limit, a handler must not wait for another request of the same
	// server. Hijacked connections do not count. TLS handshakes in progress do not
	// count either, but a handshake starts only when a goroutine is free. No limit
	// if zero or negative. EnginePerConn ignores it.
	MaxWorkers int

	// SleepWhenConcurrencyLimitsExceeded is how long the server stops accepting
	// after it refuses a connection because of Concurrency.
	SleepWhenConcurrencyLimitsExceeded time.Duration

	// TCPKeepalive enables TCP keep-alive probes for ListenAndServe*.
	TCPKeepalive bool

	// DisableKeepalive closes every connection after its first response.
	DisableKeepalive bool

	// ReduceMemoryUsage makes a waiting connection hold no buffers and no RequestCtx even if it is
	// not a bare socket of package net. This costs one more read for each request.
	// A bare socket, and a connection with a ReadTimeout or IdleTimeout, holds
	// them for at most a second or two while it waits, whatever this field is.
	// ServeConn then returns nil when no byte arrives within ReadTimeout.
	ReduceMemoryUsage bool

	// GetOnly answers 405 to methods other than GET and HEAD.
	GetOnly bool

	// DisablePreParseMultipartForm has no effect; it exists for compatibility. The
	// server parses a multipart form on first use, when MultipartForm is called.
	DisablePreParseMultipartForm bool

	// LogAllErrors also logs errors that clients cause. By default the server logs
	// only its own errors.
	LogAllErrors bool

	// SecureErrorLogMessage has no effect; it exists for compatibility. The error
	// log of the server never contains request content.
	SecureErrorLogMessage bool

	// DisableHeaderNamesNormalizing returns field names as they were received and
	// writes them as they were set. By default names are normalised
	// (Content-Type). Over HTTP/2 and HTTP/3 all names are received in lower case:
	// Peek("X-User") finds nothing there.
	DisableHeaderNamesNormalizing bool

	// NoDefaultServerHeader omits the Server field unless a handler or Name sets
	// it.
	NoDefaultServerHeader bool

	// NoDefaultDate omits the Date field, unless the response was read with one,
	// as in a proxy. The setters of ResponseHeader ignore Date. An origin server
	// with a clock must send Date (RFC 9110 section 6.6.1).
	NoDefaultDate bool

	// NoDefaultContentType omits Content-Type unless a handler sets it.
	NoDefaultContentType bool

	// KeepHijackedConns leaves a hijacked connection open when its
	// HijackHandler returns; the handler then owns it.
	KeepHijackedConns bool

	// CloseOnShutdown refuses hijacking during a Shutdown and after
	// CloseOnNextResponse: the server sends the response of a handler that called
	// Hijack, and closes the connection. A handler that called
	// HijackSetNoResponse(true) still hijacks. Responses of handlers that do not
	// hijack have "Connection: close" then, whether or not CloseOnShutdown is set.
	CloseOnShutdown bool

	// StreamRequestBody calls Handler when the head of a request is complete. The
	// handler reads the body through RequestCtx.RequestBodyStream while it
	// arrives.
	StreamRequestBody bool

	// LazyRequestTime does not set RequestCtx.Time when a request arrives: Time
	// then returns the time of its first call.
	LazyRequestTime bool

	// CrashOnPanic makes a handler's panic end the process, as in fasthttp. By
	// default the server logs the panic with its stack and answers 500.
	CrashOnPanic bool

	// HTTP2 configures HTTP/2, which is on; see HTTP2Config.Disable.
	HTTP2 HTTP2Config

	// Engine selects how connections are served. The default is EngineEpoll on
	// Linux for TCP and unix listeners, with or without the TLS of ServeTLS, and
	// EnginePerConn for everything else. If EngineEpoll is set and cannot serve,
	// EnginePerConn serves, and the server logs the reason. Handlers behave the
	// same on both engines.
	Engine Engine

	// IOUring says whether EngineEpoll sends the responses of several connections with one
	// system call, by io_uring(7). It saves processor time under load, and changes nothing
	// else. The default is IOUringAuto. Where the kernel or a container's filter of system
	// calls does not allow it, the server serves without it: EngineInfo says why. Connections
	// of TLS do not use it.
	IOUring IOUring

	// ProxyProtocol says whether connections begin with a header of the PROXY protocol, version 1
	// or 2, with which HAProxy, nginx, AWS and others tell whose connections they forward.
	// RemoteAddr, LocalAddr, MaxConnsPerIP and the log then have the client's address, and
	// RequestCtx.ProxyInfo has what else the proxy knows. It applies to all connections of the
	// server, before TLS. A header has ReadTimeout, or 30 s without it, and at most 4 KiB.
	ProxyProtocol ProxyProtocol

	// ProxyTrusted are the networks of the proxies whose headers are believed, beside those that
	// connect over a unix socket. If it is empty, no other peer is: Serve of a TCP listener then
	// returns an error. List only your proxies: whoever may send a header chooses its address.
	ProxyTrusted []netip.Prefix

	// Logger receives the log of the server; the standard logger of package log if
	// nil.
	Logger Logger

	// TLSConfig is the base of the TLS configuration of ListenAndServeTLS and
	// ServeTLS. AppendCert, AppendCertEmbed and ServeTLS change it.
	TLSConfig *tls.Config

	// CompactTLS makes connections of ServeTLS cost as little as plain ones while they wait,
	// if EngineEpoll serves them, they speak TLS 1.3, and the process is not in the mode "only"
	// of FIPS 140-3. crypto/tls makes the handshake. Then a record layer of Sluice's own
	// (RFC 8446 section 5) takes its place, so that NetConn and hijacked connections are no
	// *tls.Conn, and ConnectionState().ExportKeyingMaterial returns an error. docs/guide/tls.md
	// says what else to know.
	CompactTLS bool

	control ServerControl

	state      serverState
	nextProtos map[string]ServeHandler // guarded by state

	gauges   serverGauges
	upgrades upgrade.Hosts
	perIP    engine.AddressCounter
	done     cancelSet
}

// noCopy makes go vet reject copies of a type that embeds it.
type noCopy struct{}

// Lock is for go vet's copylocks check.
func (*noCopy) Lock() {}

// Unlock is for go vet's copylocks check.
func (*noCopy) Unlock() {}

// GetCurrentConcurrency returns the number of connections being served, without
// hijacked ones.
func (s *Server) GetCurrentConcurrency() uint32 { return uint32(s.gauges.served()) }

// GetOpenConnectionsCount returns the number of open connections, without
// hijacked ones. A connection counts from the moment at which it is accepted,
// or at which AdoptConn or AdoptSocket is called for it.
func (s *Server) GetOpenConnectionsCount() int32 { return int32(s.gauges.open()) }

// GetRejectedConnectionsCount returns the number of connections that the server
// has refused because of Concurrency since it was created.
func (s *Server) GetRejectedConnectionsCount() uint32 { return s.gauges.rejected.Load() }
