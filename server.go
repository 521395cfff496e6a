package sluice

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// RequestHandler processes one request. It reads ctx.Request, fills
// ctx.Response and may block for as long as it likes.
//
// ctx, and every slice that its methods return, belongs to the handler until
// it returns; afterwards the server uses them for another request. A handler
// that must leave ctx to other goroutines calls ctx.TimeoutError before it
// returns.
type RequestHandler func(ctx *RequestCtx)

// ServeHandler serves a whole connection whose protocol was negotiated by ALPN
// (Server.NextProto). The connection is closed when it returns.
type ServeHandler func(c net.Conn) error

// HijackHandler takes a connection over from the server (RequestCtx.Hijack).
// The connection is closed when it returns, unless Server.KeepHijackedConns is
// set.
type HijackHandler func(c net.Conn)

// FormValueFunc looks a form value up for RequestCtx.FormValue. The returned
// bytes have the lifetime of ctx.
type FormValueFunc func(ctx *RequestCtx, key string) []byte

// Logger is what the server logs with. *log.Logger implements it.
type Logger interface {
	// Printf has the semantics of log.Printf.
	Printf(format string, args ...any)
}

// RequestConfig changes limits for one request; Server.HeaderReceived returns
// it. Zero fields leave the server's values in force.
type RequestConfig struct {
	// ReadTimeout bounds the time to receive the rest of the request, counted
	// from its first byte.
	ReadTimeout time.Duration
	// WriteTimeout bounds every blocked write of the answer.
	WriteTimeout time.Duration
	// MaxRequestBodySize bounds the body, in bytes.
	MaxRequestBodySize int
}

// A ConnState is a state of a connection, for Server.ConnState.
type ConnState int

const (
	// StateNew: accepted, and nothing received yet. Followed by StateActive or
	// StateClosed.
	StateNew ConnState = iota
	// StateActive: the first byte of a request has come. Followed by StateIdle,
	// StateHijacked or StateClosed.
	StateActive
	// StateIdle: the answer is written and the connection waits for another
	// request. Followed by StateActive or StateClosed.
	StateIdle
	// StateHijacked: taken over by a handler; final.
	StateHijacked
	// StateClosed: final.
	StateClosed
)

// String names the state as net/http does.
func (s ConnState) String() string {
	switch s {
	case StateNew:
		return "new"
	case StateActive:
		return "active"
	case StateIdle:
		return "idle"
	case StateHijacked:
		return "hijacked"
	case StateClosed:
		return "closed"
	}
	return ""
}

// DefaultConcurrency is the number of connections that a Server serves at once
// when Server.Concurrency is zero.
const DefaultConcurrency = 256 * 1024

// DefaultMaxRequestBodySize is the bound of a request body, in bytes, when
// Server.MaxRequestBodySize is zero.
const DefaultMaxRequestBodySize = 4 * 1024 * 1024

// A Server serves HTTP/1.1. Its zero value with a Handler is ready; the fields
// must not be changed while it serves. Its methods may be called from any
// goroutine.
type Server struct {
	noCopy noCopy

	// Handler answers requests. Required.
	Handler RequestHandler

	// ErrorHandler answers requests that cannot be handed to Handler: malformed
	// or oversized ones, time-outs. The response's status is already what RFC
	// 9110 asks for; the connection is closed afterwards. err is *ErrSmallBuffer
	// and ErrSmallReadBuffer for a head over its limit, ErrBodyTooLarge for a body
	// over its limit, a net.Error with Timeout() and os.ErrDeadlineExceeded for a
	// time-out, io.ErrUnexpectedEOF for a request that breaks off, ErrBrokenChunk
	// for a malformed chunk, and otherwise describes the violation. Use errors.Is
	// and errors.As. By default the status is sent with a description.
	ErrorHandler func(ctx *RequestCtx, err error)

	// HeaderReceived is called when a head is complete, before the body is
	// read, and may change limits for this request.
	HeaderReceived func(header *RequestHeader) RequestConfig

	// ContinueHandler decides, for a request that expects 100-continue (RFC 9110
	// section 10.1.1), whether its body is wanted. false answers 417. By
	// default every body is wanted.
	ContinueHandler func(header *RequestHeader) bool

	// ExpectHandler is like ContinueHandler and returns the status to answer:
	// StatusContinue to have the body sent, any other to refuse it. It may fill
	// ctx.Response. ExpectHandler has precedence over ContinueHandler.
	ExpectHandler func(ctx *RequestCtx) int

	// FormValueFunc replaces the look-up of RequestCtx.FormValue.
	FormValueFunc FormValueFunc

	// ConnState is called when a connection changes state.
	ConnState func(conn net.Conn, state ConnState)

	// Name is sent in the Server field; "sluice" if empty.
	Name string

	// Concurrency bounds the connections served at once. Further ones are
	// answered 503 and closed. DefaultConcurrency if zero.
	Concurrency int

	// MaxConnsPerIP bounds the connections of one client: of an IPv4 address, or
	// of an IPv6 network (see IPv6ClientPrefix). Further ones are answered 429 and
	// closed. No bound if zero.
	MaxConnsPerIP int

	// IPv6ClientPrefix is how many leading bits of an IPv6 address MaxConnsPerIP
	// takes for one client. 64 if zero: a client with IPv6 has 2^64 addresses or
	// more. 128 counts each address for itself, 56 or 48 what providers assign to
	// a site. An IPv4-mapped address counts as the IPv4 address.
	IPv6ClientPrefix int

	// MaxRequestsPerConn bounds the requests served on one connection; the last
	// one is answered with "Connection: close". No bound if zero.
	MaxRequestsPerConn int

	// MaxRequestBodySize bounds request bodies, in bytes; larger ones are
	// answered 413 as soon as that is known. What a body is decoded to is bounded
	// by it, too (Request.BodyUncompressed and the like, RequestCtx.MultipartForm).
	// With StreamRequestBody neither the stream itself is bounded nor a form that
	// is read from it without decoding; what Request.Body and the like collect is.
	// DefaultMaxRequestBodySize if zero or negative.
	MaxRequestBodySize int

	// MaxBodyMemory bounds the memory, in bytes, that all request bodies being
	// received hold together; a request that would exceed it is answered 503.
	// No bound if zero.
	MaxBodyMemory int64

	// MinBodyRate is the number of bytes per second below which a client that
	// sends a body is answered 408, after five seconds of grace. No bound if
	// zero.
	MinBodyRate int

	// ReadBufferSize bounds the head of a request, request line included, in
	// bytes: 414 or 431 is answered to larger ones. If zero, a request line may
	// have 8 KiB and a head 64 KiB. It is also the size of the buffer that a
	// connection reads into while it is active.
	ReadBufferSize int

	// WriteBufferSize is the number of bytes of answers that are collected
	// before they are written, for pipelined requests and streamed bodies. 4 KiB
	// for streams if zero.
	WriteBufferSize int

	// ReadTimeout bounds the time from the first byte of a request to its last
	// one. No bound if zero. It also bounds TLS handshakes, which have 30 s if
	// it is zero.
	ReadTimeout time.Duration

	// WriteTimeout bounds every blocked write, counted from when it blocks. No
	// bound if zero.
	WriteTimeout time.Duration

	// IdleTimeout bounds the wait for a request on a connection, also for the
	// first one. ReadTimeout if zero.
	IdleTimeout time.Duration

	// MaxKeepaliveDuration bounds the life of a connection: the first answer
	// after that closes it. No bound if zero.
	MaxKeepaliveDuration time.Duration

	// MaxIdleWorkerDuration is how long a stack that no request uses is kept
	// for the next one. Ten seconds if zero.
	MaxIdleWorkerDuration time.Duration

	// TCPKeepalivePeriod is the interval of TCP keep-alive probes with
	// TCPKeepalive; the operating system's if zero.
	TCPKeepalivePeriod time.Duration

	// Loops is the number of event loops of EngineEpoll, which wait for
	// connections and hand them to the goroutines that run handlers. One for
	// every two processors if zero or negative. EnginePerConn has none.
	Loops int

	// MaxWorkers bounds the goroutines that run handlers on each loop of
	// EngineEpoll: further requests wait for one of them, in the order in which
	// they have come. A handler must then not wait for another request of this
	// server. Hijacked connections do not count, nor do TLS handshakes that are
	// under way, though one begins only when a goroutine is free. No bound if
	// zero or negative. EnginePerConn has none.
	MaxWorkers int

	// SleepWhenConcurrencyLimitsExceeded is how long accepting pauses after a
	// connection was refused because of Concurrency.
	SleepWhenConcurrencyLimitsExceeded time.Duration

	// TCPKeepalive switches TCP keep-alive probes on for ListenAndServe*.
	TCPKeepalive bool

	// DisableKeepalive closes every connection after its first answer.
	DisableKeepalive bool

	// ReduceMemoryUsage has connections that are no bare sockets of package net
	// hold no buffers while they wait, which costs a read for each request.
	// Others, and those with a ReadTimeout or IdleTimeout, never hold buffers for
	// more than a second or two.
	ReduceMemoryUsage bool

	// GetOnly answers 405 to methods other than GET and HEAD.
	GetOnly bool

	// DisablePreParseMultipartForm leaves multipart bodies as they are until
	// MultipartForm is called. It is accepted for compatibility: forms are
	// always parsed on first use.
	DisablePreParseMultipartForm bool

	// LogAllErrors logs what clients do wrong too, not only what the server
	// does.
	LogAllErrors bool

	// SecureErrorLogMessage is accepted for compatibility: the log never has
	// content of requests.
	SecureErrorLogMessage bool

	// DisableHeaderNamesNormalizing hands field names out as they were
	// received and writes them as they were set, instead of in their
	// normalised spelling (Content-Type).
	DisableHeaderNamesNormalizing bool

	// NoDefaultServerHeader leaves the Server field out unless a handler or
	// Name sets it.
	NoDefaultServerHeader bool

	// NoDefaultDate leaves the Date field out unless the response was read with
	// one, as a proxy's is. Setters of ResponseHeader ignore Date. An origin server
	// with a clock must send it (RFC 9110 section 6.6.1).
	NoDefaultDate bool

	// NoDefaultContentType leaves Content-Type out unless a handler sets it.
	NoDefaultContentType bool

	// KeepHijackedConns leaves a hijacked connection open when its
	// HijackHandler returns; the handler then owns it.
	KeepHijackedConns bool

	// CloseOnShutdown: during a Shutdown no connection is hijacked by a handler
	// that leaves the response to the server. Every other response says
	// "Connection: close" then, whatever CloseOnShutdown is.
	CloseOnShutdown bool

	// StreamRequestBody calls Handler when the head of a request is complete;
	// the body is read through RequestCtx.RequestBodyStream while it arrives.
	StreamRequestBody bool

	// LazyRequestTime leaves out reading the clock for RequestCtx.Time, which
	// then returns the time of its first call.
	LazyRequestTime bool

	// CrashOnPanic lets a handler's panic end the process, as fasthttp does.
	// By default it is logged with its stack and answered 500.
	CrashOnPanic bool

	// Engine chooses how connections are served. By default that is
	// EngineEpoll on Linux for listeners of TCP and unix sockets, with or
	// without ServeTLS's TLS, and EnginePerConn for everything else. Where
	// EngineEpoll is asked for and cannot serve, EnginePerConn does, and the
	// Logger is told why. Handlers see no difference, and need not be written
	// for any engine.
	Engine Engine

	// Meter has the words in which the server counts connections, requests and
	// bytes. Nothing is counted if nil.
	Meter *Meter

	// Divert is asked for every connection that is accepted from a listener and
	// is nothing but a TCP or unix socket, before anything else is done with it.
	// If it returns true, the connection is somebody else's: Divert has
	// duplicated the descriptor fd, or sent it to another process, and the
	// server closes fd and forgets it. Divert must not block, close fd, or call
	// the server. It is for process managers, which have another process adopt
	// the connection (AdoptConn).
	Divert func(fd int) bool

	// Logger gets what the server has to say; the standard logger of package
	// log if nil.
	Logger Logger

	// TLSConfig is the base of the configuration that ListenAndServeTLS and
	// ServeTLS use.
	TLSConfig *tls.Config

	mu         sync.Mutex
	state      serverState // guarded by mu
	nextProtos map[string]ServeHandler

	gauges serverGauges
	perIP  engine.AddressCounter
	done   doneSet
}

// noCopy makes go vet refuse copies of what embeds it.
type noCopy struct{}

// Lock is for go vet's copylocks check.
func (*noCopy) Lock() {}

// Unlock is for go vet's copylocks check.
func (*noCopy) Unlock() {}

// GetCurrentConcurrency returns the number of connections being served, without
// those that were hijacked.
func (s *Server) GetCurrentConcurrency() uint32 { return uint32(s.gauges.served()) }

// GetOpenConnectionsCount returns the number of open connections, without
// those that were hijacked. A connection counts as soon as it was accepted, or
// AdoptConn or AdoptSocket was called for it.
func (s *Server) GetOpenConnectionsCount() int32 { return int32(s.gauges.open()) }

// GetRejectedConnectionsCount returns the number of connections refused since
// the server began because of Concurrency.
func (s *Server) GetRejectedConnectionsCount() uint32 { return s.gauges.rejected.Load() }
