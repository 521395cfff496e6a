package sluice

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"runtime/debug"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// ConnID returns the number of the connection, which is unique within the
// server. It is 0 outside a server.
func (ctx *RequestCtx) ConnID() uint64 { return ctx.facts.ID }

// ConnRequestNum returns the number of the request on its connection, counted
// from 1. It is 0 outside a server.
func (ctx *RequestCtx) ConnRequestNum() uint64 { return ctx.facts.Served }

// ID returns a number for the request that is unique within the server: ConnID
// in the upper 32 bits, ConnRequestNum in the lower 32.
func (ctx *RequestCtx) ID() uint64 { return ctx.ConnID()<<32 | ctx.ConnRequestNum() }

// StreamID returns the identifier of the stream that carries the request in HTTP/2
// (RFC 9113 section 5.1.1) and HTTP/3 (RFC 9000 section 2.1), where the first one is 0. It
// is 0 for HTTP/1.1 and outside a server.
func (ctx *RequestCtx) StreamID() uint64 { return ctx.facts.Stream }

// ProtoMajor returns the major version of HTTP in which the request came: 1, 2 or 3. It is 1
// outside a server. Above 1, a connection has several requests at a time, each in a stream.
func (ctx *RequestCtx) ProtoMajor() int { return max(int(ctx.facts.Version), 1) }

// IsEarly reports whether the request came with the first packet of a client (RFC 8470), so that an
// attacker may have recorded and repeated it. A handler for which that is not safe answers 425,
// and the client sends it again later. It is false unless http3.Config.EarlyData is set.
func (ctx *RequestCtx) IsEarly() bool { return ctx.facts.IsEarly }

// ConnTime returns the time at which the connection was accepted; outside a
// server, the time of Init.
func (ctx *RequestCtx) ConnTime() time.Time {
	if ctx.server == nil {
		return clock.Time(ctx.time)
	}
	return clock.Time(ctx.facts.Opened)
}

// Time returns the time at which the first byte of the request arrived. With
// Server.LazyRequestTime it returns the time of its first call.
func (ctx *RequestCtx) Time() time.Time {
	if ctx.time == 0 {
		ctx.time = clock.Nanos()
	}
	return clock.Time(ctx.time)
}

// Conn returns the connection of the request. Reads return what the client
// sends after the request. Writes go out before the response, and after the
// responses to earlier requests; they fail after Flush, unless the connection is hijacked.
// Close drops the response; the server closes
// the connection when the handler has returned. The connection is valid until
// then; to use it longer, see Hijack. Conn returns nil outside a server, unless
// Init2 set a connection.
func (ctx *RequestCtx) Conn() net.Conn {
	if ctx.server == nil {
		return ctx.netConn
	}
	if ctx.beginWrite() != nil {
		ctx.wire.Lock()
		defer ctx.wire.Unlock()
		return engine.AddressOnly{Conn: ctx.netConn, Err: net.ErrClosed} // the request has ended
	}
	defer ctx.endWrite()
	return ctx.exchange.UserConn()
}

// zeroAddr returns the address that is reported outside a server.
func zeroAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(0, 0, 0, 0)} }

// RemoteAddr returns the address that SetRemoteAddr set, otherwise the client's
// address on the connection. It is never nil.
func (ctx *RequestCtx) RemoteAddr() net.Addr {
	switch {
	case ctx.remoteAddr != nil:
		return ctx.remoteAddr
	case ctx.server != nil:
		ctx.wire.Lock()
		defer ctx.wire.Unlock()
		return addrOr(ctx.addresses().RemoteAddr())
	case ctx.netConn != nil:
		return addrOr(ctx.netConn.RemoteAddr())
	}
	return zeroAddr()
}

// SetRemoteAddr makes RemoteAddr and RemoteIP report addr for this request. nil
// restores the address of the connection.
func (ctx *RequestCtx) SetRemoteAddr(addr net.Addr) { ctx.remoteAddr = addr }

// LocalAddr returns the server's address on this connection. It is never nil.
func (ctx *RequestCtx) LocalAddr() net.Addr {
	switch {
	case ctx.server != nil:
		ctx.wire.Lock()
		defer ctx.wire.Unlock()
		return addrOr(ctx.addresses().LocalAddr())
	case ctx.netConn != nil:
		return addrOr(ctx.netConn.LocalAddr())
	}
	return zeroAddr()
}

// RemoteIP returns the IP address of RemoteAddr, or 0.0.0.0 if it has none.
func (ctx *RequestCtx) RemoteIP() net.IP { return ipOf(ctx.RemoteAddr()) }

// LocalIP returns the IP address of LocalAddr, or 0.0.0.0 if it has none.
func (ctx *RequestCtx) LocalIP() net.IP { return ipOf(ctx.LocalAddr()) }

// addresses returns an object that reports the addresses of the connection,
// even after the request has ended; wire is held.
func (ctx *RequestCtx) addresses() interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
} {

	if ctx.exchange == nil {
		return ctx.netConn
	}
	return ctx.exchange
}

func addrOr(addr net.Addr) net.Addr {
	if addr == nil {
		return zeroAddr()
	}
	return addr
}

func ipOf(addr net.Addr) net.IP {
	switch at := addr.(type) {
	case *net.TCPAddr:
		if at.IP != nil {
			return at.IP
		}
	case *net.UDPAddr:
		if at.IP != nil {
			return at.IP
		}
	}
	return net.IPv4(0, 0, 0, 0) // not net.IPv4zero: a caller could change the shared slice
}

// IsTLS reports whether the connection is TLS.
func (ctx *RequestCtx) IsTLS() bool { return ctx.tlsConn() != nil }

// TLSConnectionState returns the state of a TLS connection, nil if the
// connection is not TLS.
func (ctx *RequestCtx) TLSConnectionState() *tls.ConnectionState {
	c := ctx.tlsConn()
	if c == nil {
		return nil
	}
	state := c.ConnectionState()
	return &state
}

// tlsStater is implemented by *tls.Conn and its wrappers.
type tlsStater interface {
	ConnectionState() tls.ConnectionState
}

func (ctx *RequestCtx) tlsConn() tlsStater {
	if ctx.server != nil && !ctx.facts.IsTLS {
		return nil
	}
	stater, _ := ctx.acceptedConn().(tlsStater)
	return stater
}

// acceptedConn returns the connection for its addresses and states, nil if there is none.
func (ctx *RequestCtx) acceptedConn() net.Conn {
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	if ctx.exchange != nil {
		return ctx.exchange.NetConn()
	}
	return ctx.netConn
}

// ProxyInfo returns what a proxy has said of the connection by the PROXY protocol, see
// Server.ProxyProtocol. ok is false if there was no header, or one that names no client, as that
// of a proxy's health check: RemoteAddr is the address of the socket then.
func (ctx *RequestCtx) ProxyInfo() (info ProxyInfo, ok bool) {
	return ProxyInfoOf(ctx.acceptedConn())
}

// SetReadDeadline sets the time by which the rest of the request must arrive.
// The zero time removes the limit. It returns ErrNilConnection outside a
// server, and ErrDeadlineUpdatesDisabled after the time-out response of the
// request was sent (TimeoutError).
func (ctx *RequestCtx) SetReadDeadline(t time.Time) error {
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	if err := ctx.checkDeadline(); err != nil {
		return err
	}
	ctx.start, ctx.readTimeout = clock.Nanos(), timeUntil(t)
	ctx.exchange.SetReadDeadline(ctx.start, ctx.readTimeout)
	return nil
}

// SetWriteDeadline limits each blocked write of the response to the time that
// is left until t, at least 10 ms. The zero time removes the limit. The
// response is then written as soon as the handler has returned, not together
// with responses to pipelined requests. If t has passed, the server still
// writes what does not have to wait for the client. The errors are those of
// SetReadDeadline.
func (ctx *RequestCtx) SetWriteDeadline(t time.Time) error {
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	if err := ctx.checkDeadline(); err != nil {
		return err
	}
	timeout := timeUntil(t)
	if timeout > 0 {
		timeout = max(timeout, minWriteTimeout)
	}
	ctx.exchange.SetWriteTimeout(timeout)
	return nil
}

func (ctx *RequestCtx) checkDeadline() error {
	switch {
	case ctx.server == nil:
		return ErrNilConnection
	case ctx.wire.isDetached.Load():
		return ErrDeadlineUpdatesDisabled
	}
	return nil
}

// minWriteTimeout lets a write begin: a write of package net fails when its
// deadline has passed before, even if it would not have to wait.
const minWriteTimeout = 10 * time.Millisecond

// timeUntil turns a deadline into a time-out of at least a nanosecond.
func timeUntil(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(time.Until(t), 1)
}

// Method returns the request's method. Like every slice that RequestCtx
// returns, it is valid until the handler returns.
func (ctx *RequestCtx) Method() []byte { return ctx.Request.Header.Method() }

// IsGet reports whether the method is GET.
func (ctx *RequestCtx) IsGet() bool { return ctx.Request.Header.IsGet() }

// IsHead reports whether the method is HEAD.
func (ctx *RequestCtx) IsHead() bool { return ctx.Request.Header.IsHead() }

// IsPost reports whether the method is POST.
func (ctx *RequestCtx) IsPost() bool { return ctx.Request.Header.IsPost() }

// IsPut reports whether the method is PUT.
func (ctx *RequestCtx) IsPut() bool { return ctx.Request.Header.IsPut() }

// IsDelete reports whether the method is DELETE.
func (ctx *RequestCtx) IsDelete() bool { return ctx.Request.Header.IsDelete() }

// IsConnect reports whether the method is CONNECT.
func (ctx *RequestCtx) IsConnect() bool { return ctx.Request.Header.IsConnect() }

// IsOptions reports whether the method is OPTIONS.
func (ctx *RequestCtx) IsOptions() bool { return ctx.Request.Header.IsOptions() }

// IsTrace reports whether the method is TRACE.
func (ctx *RequestCtx) IsTrace() bool { return ctx.Request.Header.IsTrace() }

// IsPatch reports whether the method is PATCH.
func (ctx *RequestCtx) IsPatch() bool { return ctx.Request.Header.IsPatch() }

// IsQuery reports whether the method is QUERY.
func (ctx *RequestCtx) IsQuery() bool { return ctx.Request.Header.IsQuery() }

// RequestURI returns the request-target as received.
func (ctx *RequestCtx) RequestURI() []byte { return ctx.Request.Header.RequestURI() }

// URI returns the parsed request-target. It may be changed; Path, Host and
// QueryArgs reflect the change.
func (ctx *RequestCtx) URI() *URI { return ctx.Request.URI() }

// Path returns the normalised path.
func (ctx *RequestCtx) Path() []byte { return ctx.URI().m.Path() }

// Host returns the host of the request-target, otherwise that of the Host
// field.
func (ctx *RequestCtx) Host() []byte {
	if !ctx.Request.hasURI { // what a URI would say that is not parsed
		if host, _, ok := ctx.Request.Header.m.LendOrigin(); ok && len(host) > 0 && host[0] != '[' && ascii.IsLower(host) {
			return host[:len(host):len(host)]
		}
	}
	return ctx.URI().Host()
}

// Referer returns the Referer field.
func (ctx *RequestCtx) Referer() []byte { return ctx.Request.Header.Referer() }

// UserAgent returns the User-Agent field.
func (ctx *RequestCtx) UserAgent() []byte { return ctx.Request.Header.UserAgent() }

// QueryArgs returns the arguments of the query.
func (ctx *RequestCtx) QueryArgs() *Args { return ctx.URI().QueryArgs() }

// PostArgs returns the arguments of an application/x-www-form-urlencoded body.
func (ctx *RequestCtx) PostArgs() *Args { return ctx.Request.PostArgs() }

// PostBody returns the body; see Request.Body.
func (ctx *RequestCtx) PostBody() []byte { return ctx.Request.Body() }

// RequestBodyStream returns a reader of the body as it arrives with
// Server.StreamRequestBody, and nil without. It is valid until the handler
// returns; if it is also the body stream of the response, it is valid until
// that is sent. The server discards an unread rest, up to a limit.
func (ctx *RequestCtx) RequestBodyStream() io.Reader { return ctx.Request.BodyStream() }

// IsBodyStream reports whether the response's body is a stream.
func (ctx *RequestCtx) IsBodyStream() bool { return ctx.Response.IsBodyStream() }

// MultipartForm returns the form of a multipart/form-data body, or
// ErrNoMultipartForm. Its files are removed when the request ends. If the form
// decodes to more than MaxRequestBodySize, the error is ErrBodyTooLarge. A form
// that is read from a stream, and has no content coding, has no limit: use
// MultipartFormWithLimit.
func (ctx *RequestCtx) MultipartForm() (*multipart.Form, error) {
	return ctx.Request.MultipartForm()
}

// MultipartFormWithLimit is MultipartForm for a body of at most maxBodySize
// bytes after decompression.
func (ctx *RequestCtx) MultipartFormWithLimit(maxBodySize int) (*multipart.Form, error) {
	return ctx.Request.MultipartFormWithLimit(maxBodySize)
}

// FormFile returns the first uploaded file named key, or ErrMissingFile if
// there is none.
func (ctx *RequestCtx) FormFile(key string) (*multipart.FileHeader, error) {
	form, err := ctx.MultipartForm()
	if err != nil {
		return nil, err
	}
	files := form.File[key]
	if len(files) == 0 {
		return nil, ErrMissingFile
	}
	return files[0], nil
}

// FormValue returns the value named key from the query, a urlencoded body or a
// multipart form, in this order. Server.FormValueFunc replaces this lookup.
func (ctx *RequestCtx) FormValue(key string) []byte {
	if ctx.server != nil && ctx.server.FormValueFunc != nil {
		return ctx.server.FormValueFunc(ctx, key)
	}
	if v := ctx.QueryArgs().Peek(key); len(v) > 0 {
		return v
	}
	return bodyFormValue(ctx, key)
}

// bodyFormValue looks only into the body.
func bodyFormValue(ctx *RequestCtx, key string) []byte {
	if v := ctx.PostArgs().Peek(key); len(v) > 0 {
		return v
	}
	if form, err := ctx.MultipartForm(); err == nil {
		if values := form.Value[key]; len(values) > 0 {
			return []byte(values[0])
		}
	}
	return nil
}

// NetHttpFormValueFunc is a FormValueFunc with the order of net/http's
// Request.FormValue: a value of the body takes precedence over one of the
// query.
var NetHttpFormValueFunc = func(ctx *RequestCtx, key string) []byte {
	if v := bodyFormValue(ctx, key); len(v) > 0 {
		return v
	}
	return ctx.QueryArgs().Peek(key)
}

// UserValue returns the value that SetUserValue set for key, or nil.
func (ctx *RequestCtx) UserValue(key any) any { return ctx.Request.UserValue(key) }

// UserValueBytes is UserValue(string(key)).
func (ctx *RequestCtx) UserValueBytes(key []byte) any { return ctx.Request.UserValueBytes(key) }

// SetUserValue retains value under key until the request ends. A value that is
// an io.Closer is closed then.
func (ctx *RequestCtx) SetUserValue(key, value any) { ctx.Request.SetUserValue(key, value) }

// SetUserValueBytes is SetUserValue(string(key), value).
func (ctx *RequestCtx) SetUserValueBytes(key []byte, value any) {
	ctx.Request.SetUserValueBytes(key, value)
}

// RemoveUserValue removes the value of key.
func (ctx *RequestCtx) RemoveUserValue(key any) { ctx.Request.RemoveUserValue(key) }

// RemoveUserValueBytes removes the value of string(key).
func (ctx *RequestCtx) RemoveUserValueBytes(key []byte) { ctx.Request.RemoveUserValueBytes(key) }

// ResetUserValues removes all user values.
func (ctx *RequestCtx) ResetUserValues() { ctx.Request.ResetUserValues() }

// VisitUserValues calls visitor for each user value whose key is a string.
func (ctx *RequestCtx) VisitUserValues(visitor func(key []byte, value any)) {
	ctx.Request.VisitUserValues(visitor)
}

// VisitUserValuesAll calls visitor for each user value.
func (ctx *RequestCtx) VisitUserValuesAll(visitor func(key, value any)) {
	ctx.Request.VisitUserValuesAll(visitor)
}

// Logger returns a logger that puts a description of the request before each
// message.
func (ctx *RequestCtx) Logger() Logger { return ctxLogger{ctx} }

// ctxLogger is the Logger of one request.
type ctxLogger struct{ ctx *RequestCtx }

// Printf implements Logger.
func (l ctxLogger) Printf(format string, args ...any) {
	ctx := l.ctx
	text := fmt.Sprintf(format, args...)
	base := ctx.ownLogger
	if base == nil && ctx.cfg != nil {
		base = ctx.cfg.logger
	}
	if base == nil {
		base = log.Default()
	}
	base.Printf("%.3f %s - %s", time.Since(ctx.Time()).Seconds(), ctx, text)
}

// String describes the request for logs:
// "#0000000100000001 - 127.0.0.1:8080<->127.0.0.1:50000 - GET http://host/path".
func (ctx *RequestCtx) String() string {
	return fmt.Sprintf("#%016X - %s<->%s - %s %s",
		ctx.ID(), ctx.LocalAddr(), ctx.RemoteAddr(), ctx.Method(), ctx.URI().FullURI())
}

// EngineStats returns Server.EngineStats of the server that received the
// request, and the zero value outside a server.
func (ctx *RequestCtx) EngineStats() EngineStats {
	if ctx.server == nil {
		return EngineStats{}
	}
	return ctx.server.EngineStats()
}

// A misuse is what a handler does with a request that loses something, and of which no error
// can tell. Each Server logs each kind once.
type misuse uint8

const (
	misuseReadsBody misuse = iota
	misuseHead
	misuseBody
	misuseReplaced
	misuseHijack
	misuses // how many there are
)

var misuseTexts = [misuses]string{
	misuseReadsBody: "reads a streamed body by Request.Body, which keeps all of it in memory: use BodyStream",
	misuseHead:      "has changed the status or a field after Flush, which the client does not see: set them before",
	misuseBody:      "has set a body although the connection was given away, as by Upgrade, Serve or HijackSetNoResponse: the body is not sent",
	misuseReplaced:  "has replaced the response after the connection was given to another protocol, as by Upgrade or Serve: the client gets that response, and the protocol does not begin",
	misuseHijack:    "has called Hijack after the connection was given away, as by Upgrade or Serve: that has no effect",
}

// warn logs m, once for each Server.
func (ctx *RequestCtx) warn(m misuse) {
	if ctx.server.gauges.hasWarned[m].CompareAndSwap(false, true) {
		ctx.cfg.logger.Printf("a handler %s (this is logged once)", misuseTexts[m])
	}
}

// LogPanic logs v, the value of a panic on the calling goroutine, with its stack. It is for
// handlers that run others on goroutines of their own, and raise their panics again in
// the RequestHandler: the server does not log v a second time.
func (ctx *RequestCtx) LogPanic(v any) {
	ctx.Logger().Printf("panic in handler: %v\n%s", v, debug.Stack())
	ctx.loggedPanic = panicSum(v)
}

// reportPanic logs v, the value of a panic in the handler, unless LogPanic has. With
// Server.CrashOnPanic, it ends the process.
func (ctx *RequestCtx) reportPanic(v any) {
	if ctx.cfg.crashOnPanic {
		crash(v)
	}
	if ctx.loggedPanic != panicSum(v) {
		ctx.cfg.logger.Printf("panic in handler serving %q: %v\n%s", ctx.exchange.RemoteAddr(), v, debug.Stack())
	}
}
