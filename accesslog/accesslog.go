// Package accesslog writes a record for each request to log/slog.
//
//	accesslog.Attach(server, accesslog.Options{Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil))})
//
// A busy server logs one of many requests (Every), but each slow one (Slow) and each failure:
//
//	accesslog.Options{Every: 100, Slow: 500 * time.Millisecond}
package accesslog

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/requestid"
	"github.com/sluicehttp/sluice/internal/server/route"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// Options say which requests are logged, and where. The zero value logs all of them to
// slog.Default.
type Options struct {
	// Logger receives the records; slog.Default() if nil. A record's level is Error for
	// failures (a status of 500 or more, or a panic), Warn for slow requests, and Info for
	// others. A request whose level is not enabled costs no allocation.
	//
	// The message is "request". The attributes are method, path, query, route (the path of
	// the pattern of package router), status, bytes, duration, remote, host, user_agent,
	// referer, request_id (of middleware.RequestID),
	// protocol and tls (the version). Those that are empty are left out, and so is the
	// number of bytes if it is not known. path and query are those of the
	// request line, not decoded. Requests whose head is malformed have only status, bytes,
	// duration, remote and error.
	Logger *slog.Logger
	// Write receives the requests instead of Logger, if it is set. It is called on the
	// request's goroutine, and must not use ctx after it returns.
	Write func(ctx *sluice.RequestCtx, e Entry)
	// Every N logs one of N requests that are neither slow nor failures, 0 or 1 each of
	// them, and a negative number none.
	Every int
	// Slow is the duration from which on a request is slow. Zero: none is.
	Slow time.Duration
}

// An Entry is what became of a request.
type Entry struct {
	// Status is the status of the response.
	Status int
	// Bytes is the length of the response's body on the connection; -1 if that is not
	// known before the body has been sent, as for streams of package sse, or after a panic.
	Bytes int
	// Duration is the time from the arrival of the request until the handler has returned.
	Duration time.Duration
	// RequestID is that of middleware.RequestID; empty without it.
	RequestID string
	// Panicked reports whether the handler panicked. The server answers 500 then, or closes the
	// connection after ErrAbortHandler.
	Panicked bool
	// Err is why the server has refused the request; nil if the handler has answered it.
	Err error
	// IsMalformed reports whether the server has refused the request for its head. Then ctx has no
	// method, target and fields that the client has sent.
	IsMalformed bool
	// Late reports whether the handler gave up (TimeoutError). Then other goroutines may
	// still use ctx: read only the method, the request line and fields of the request. If the
	// handler had flushed, the connection is closed, and the client has another Status.
	Late bool
}

// level returns the level of an Entry's record.
func (o *Options) level(e *Entry) slog.Level {
	switch {
	case e.Panicked || e.Status >= sluice.StatusInternalServerError:
		return slog.LevelError
	case o.Slow > 0 && e.Duration >= o.Slow:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// A log is what Handler and Attach have in common.
type log struct {
	Options
	count atomic.Uint64 // of requests that are neither slow nor failures
}

// Handler returns a handler that calls h and logs the request. Put
// middleware.RequestID outside, and what answers in place of h, such as CompressHandler, inside.
func Handler(h sluice.RequestHandler, o Options) sluice.RequestHandler {
	return (&log{Options: o}).wrap(h)
}

// Attach has all requests of s logged: those of Handler, and those that s refuses itself,
// which its ErrorHandler sees. An ErrorHandler that is nil is replaced by the server's own
// answer. Call it after both are set, and before s serves.
func Attach(s *sluice.Server, o Options) {
	l := &log{Options: o}
	s.Handler = l.wrap(s.Handler)
	refuse := s.ErrorHandler
	if refuse == nil {
		refuse = func(ctx *sluice.RequestCtx, err error) {
			ctx.Response.SetBodyString(strings.TrimPrefix(err.Error(), "sluice: "))
		}
	}
	s.ErrorHandler = func(ctx *sluice.RequestCtx, err error) {
		refuse(ctx, err)
		l.log(ctx, ctx.Time(), Entry{
			Status: ctx.Response.StatusCode(), Bytes: bodySize(ctx, &ctx.Response), Err: err, IsMalformed: !hasHead(ctx),
		})
	}
}

// hasHead reports whether ctx has the head of a request that the server has refused: a malformed one
// is not kept. Over HTTP/2 and HTTP/3, there is none as it was sent.
func hasHead(ctx *sluice.RequestCtx) bool {
	h := &ctx.Request.Header
	return len(h.RawHeaders()) > 0 || ctx.ProtoMajor() > 1 && len(h.Host()) > 0
}

// wrap returns h with the log.
func (l *log) wrap(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		start, id := ctx.Time(), requestid.Of(ctx) // h may give ctx away
		hasReturned := false
		defer func() {
			e := Entry{RequestID: id}
			switch late := ctx.LastTimeoutErrorResponse(); {
			case !hasReturned:
				e.Panicked, e.Status, e.Bytes = true, sluice.StatusInternalServerError, -1
			case late != nil:
				e.Late, e.Status, e.Bytes = true, late.StatusCode(), bodySize(ctx, late)
			default:
				e.Status, e.Bytes = ctx.Response.StatusCode(), bodySize(ctx, &ctx.Response)
			}
			l.log(ctx, start, e)
		}()
		h(ctx)
		hasReturned = true
	}
}

// log logs a request that is about to be answered.
func (l *log) log(ctx *sluice.RequestCtx, start time.Time, e Entry) {
	e.Duration = max(time.Since(start), 0)
	level := l.level(&e)
	if level == slog.LevelInfo && !l.isTheirTurn() {
		return
	}
	if l.Write != nil {
		l.Write(ctx, e)
		return
	}
	logger := l.Logger
	if logger == nil {
		logger = slog.Default()
	}
	if logger.Enabled(context.Background(), level) {
		logger.LogAttrs(context.Background(), level, "request", attributes(ctx, &e)...)
	}
}

// isTheirTurn reports whether a request that is nothing special is logged.
func (l *log) isTheirTurn() bool {
	switch {
	case l.Every < 0:
		return false
	case l.Every <= 1:
		return true
	}
	return l.count.Add(1)%uint64(l.Every) == 1
}

// attributes returns those of a record. They own their memory, because handlers of slog may
// keep them.
func attributes(ctx *sluice.RequestCtx, e *Entry) []slog.Attr {
	all := make([]slog.Attr, 0, 15)
	text := func(name string, value []byte) {
		if len(value) > 0 {
			all = append(all, slog.String(name, string(value)))
		}
	}
	header := &ctx.Request.Header
	if !e.IsMalformed {
		path, query, _ := bytes.Cut(header.RequestURI(), []byte("?"))
		text("method", header.Method())
		text("path", path)
		text("query", query)
		if m, ok := ctx.UserValue(route.Key{}).(*route.Match); ok && !e.Late && m.Pattern() != "" {
			all = append(all, slog.String("route", m.Path()))
		}
	}
	all = append(all, slog.Int("status", e.Status))
	if e.Bytes >= 0 {
		all = append(all, slog.Int("bytes", e.Bytes))
	}
	all = append(all, slog.Duration("duration", e.Duration), slog.String("remote", ctx.RemoteAddr().String()))
	if !e.IsMalformed {
		text("host", header.Peek(sluice.HeaderHost))
		text("user_agent", header.Peek(sluice.HeaderUserAgent))
		text("referer", upgrade.Peek(ctx, header, sluice.HeaderReferer))
		text("protocol", header.Protocol())
	}
	if e.RequestID != "" {
		all = append(all, slog.String("request_id", e.RequestID))
	}
	if state := ctx.TLSConnectionState(); state != nil {
		all = append(all, slog.String("tls", tls.VersionName(state.Version)))
	}
	if e.Err != nil {
		all = append(all, slog.String("error", e.Err.Error()))
	}
	return all
}

// bodySize returns how many bytes the body of the response takes, -1 if that is not known
// yet.
func bodySize(ctx *sluice.RequestCtx, resp *sluice.Response) int {
	switch status := resp.StatusCode(); {
	case ctx.IsHead(), resp.SkipBody, status < sluice.StatusOK,
		status == sluice.StatusNoContent, status == sluice.StatusResetContent, status == sluice.StatusNotModified:
		return 0
	case resp != &ctx.Response: // after a time-out, ctx is not looked at
		return len(resp.Body())
	case upgrade.TakerOf(ctx).IsBodyForeign():
		return -1
	case resp.IsBodyStream(), ctx.HeadSent(): // by Flush, which has sent parts of the body, too
		return max(resp.Header.ContentLength(), -1)
	}
	return len(resp.Body())
}
