package main

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
)

// A service streams its broker's events.
type service struct {
	broker    *broker
	heartbeat time.Duration  // between comments on a stream without events
	ended     func(left int) // called when a stream has ended; left is the number of open streams
}

// handle finds the handler of a request.
func (s *service) handle(ctx *sluice.RequestCtx) {
	switch string(ctx.Path()) {
	case "/":
		ctx.Success("text/html; charset=utf-8", page)
	case "/publish":
		s.publish(ctx)
	case "/events":
		s.streamInHandler(ctx)
	case "/events-by-writer":
		s.streamByWriter(ctx)
	default:
		ctx.NotFound()
	}
}

// publish sends the body to all subscribers.
func (s *service) publish(ctx *sluice.RequestCtx) {
	if !ctx.IsPost() {
		ctx.Error("POST what is to be sent", sluice.StatusMethodNotAllowed)
		ctx.Response.Header.Set(sluice.HeaderAllow, "POST")
		return
	}
	id := s.broker.publish(string(ctx.QueryArgs().Peek("event")), string(ctx.PostBody()))
	ctx.WriteString(strconv.FormatUint(id, 10) + "\n")
}

// streamInHandler writes from inside the handler, and ctx.Flush sends. ctx may be
// used during the whole stream, and defer cleans up.
func (s *service) streamInHandler(ctx *sluice.RequestCtx) {
	if !beginStream(ctx) {
		return
	}
	sub := s.broker.subscribe(lastEventID(ctx))
	defer s.end(sub)
	s.copyEvents(sub, ctx, ctx.Flush, ctx.Done())
}

// streamByWriter does the same with fasthttp's API. The function runs after the
// handler has returned, so it must not use ctx, and it does the clean-up. It is
// called exactly once.
func (s *service) streamByWriter(ctx *sluice.RequestCtx) {
	if !beginStream(ctx) {
		return
	}
	sub := s.broker.subscribe(lastEventID(ctx))
	gone := ctx.Done()
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.end(sub)
		s.copyEvents(sub, w, w.Flush, gone)
	})
}

// beginStream sets the head. It returns false if no body is wanted.
func beginStream(ctx *sluice.RequestCtx) bool {
	ctx.SetContentType("text/event-stream")
	ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-store")
	ctx.Response.Header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the events
	return ctx.IsGet()
}

// lastEventID returns the last event that a reconnecting EventSource has seen.
func lastEventID(ctx *sluice.RequestCtx) *uint64 {
	id, err := strconv.ParseUint(string(ctx.Request.Header.Peek("Last-Event-ID")), 10, 64)
	if err != nil {
		return nil
	}
	return &id
}

// copyEvents writes events to w until the subscription ends, the client has
// disconnected, or the server shuts down. A disconnect is noticed in two ways: gone
// is closed, even while nothing is being sent, and flush fails.
func (s *service) copyEvents(sub *subscription, w io.Writer, flush func() error, gone <-chan struct{}) {
	io.WriteString(w, "retry: 1000\n\n") // reconnect after a second
	for _, e := range sub.missed {
		e.write(w)
	}
	beats := time.NewTicker(s.heartbeat)
	defer beats.Stop()
	for flush() == nil { // the first one sends the head
		select {
		case <-gone:
			return
		case e, ok := <-sub.events:
			if !ok {
				return // too slow; the client reconnects for the rest
			}
			e.write(w)
		case <-beats.C:
			// A comment. It keeps proxies from closing the connection, and detects
			// clients whose network has failed silently: see WriteTimeout.
			io.WriteString(w, ":\n\n")
		}
	}
}

// end cleans up after a stream.
func (s *service) end(sub *subscription) { s.ended(s.broker.unsubscribe(sub)) }
