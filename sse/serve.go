package sse

import (
	"slices"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// headerLastEventID is the field with the ID of the last event that a client has got.
const headerLastEventID = "Last-Event-ID"

const mediaType = "text/event-stream"

// Serve answers with a stream of the events of topics, which begins when the handler has
// returned: until then it may set fields and cookies. A client with Last-Event-ID first gets
// the events that it has missed. Any method will do; the answer to HEAD is the head.
//
// A connection of HTTP/1.1 or 1.0 ends with the stream. A stream holds no goroutine on an
// event engine; on EnginePerConn, each connection holds one.
//
// The error is ErrTopics, that of Options.Snapshot, that the server shuts down, or ErrSlow: events
// that were published while Snapshot ran left the history meanwhile, several times. Then the
// handler has to answer. It is sluice.ErrHeadSent after Flush, and sluice.ErrTakenOver if Serve
// or another method has given the connection away: then there is an answer already.
//
// The body is the stream's: what was written before is dropped, and Write fails afterwards. A
// handler that replaces the response, as by Error, answers with that instead of the stream.
func (h *Hub) Serve(ctx *sluice.RequestCtx, topics ...string) error {
	if err := upgrade.TakeOver(ctx, upgrade.Takeover{}); err != nil {
		return err
	}
	if !areValid(topics) {
		return ErrTopics
	}
	isHTTP2 := ctx.ProtoMajor() > 1
	o := opening{topics: slices.Clone(topics)}
	if !ctx.Request.Header.IsHTTP11() || isHTTP2 {
		o.form = formRaw
	}
	if !ctx.IsHead() {
		if err := h.prepare(ctx, &o); err != nil {
			return err
		}
		if err := h.takeOver(ctx, o); err != nil {
			return err
		}
	}
	ctx.SetStatusCode(sluice.StatusOK)
	ctx.SetContentType(mediaType)
	r := &ctx.Response.Header
	r.Set(sluice.HeaderCacheControl, "no-store, no-transform")
	r.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the events
	return nil
}

func areValid(topics []string) bool {
	for i, name := range topics {
		if len(name) > MaxTopic || slices.Contains(topics[:i], name) {
			return false
		}
	}
	return len(topics) > 0 && len(topics) <= MaxTopics
}

// lastEventID returns the value of Last-Event-ID in any spelling: a server with
// DisableHeaderNamesNormalizing keeps names as they were sent.
func lastEventID(h *sluice.RequestHeader) string {
	if found := upgrade.Values(h.All(), headerLastEventID); len(found) > 0 {
		return string(found[0])
	}
	return ""
}

// gapText is the data of a GapEvent: browsers ignore events without.
const gapText = "events were missed"

// prepare finds where the stream begins.
func (h *Hub) prepare(ctx *sluice.RequestCtx, o *opening) error {
	h.recall.Await(ctx)
	text := lastEventID(&ctx.Request.Header)
	last, hasID := parsePosition(text)
	if hasID && h.recall != nil {
		h.meet(last[0])
	}
	h.mu.Lock()
	hasGap := text != "" && (!hasID || h.log.hasGap(last))
	if hasID {
		o.had = last
		if hasGap {
			o.had = h.log.afterGap(last)
		}
	}
	h.mu.Unlock()
	o.isNew = !hasID || hasGap
	switch {
	case hasGap:
		h.gap()
		if h.options.Snapshot == nil {
			o.first = appendText(nil, GapEvent, []byte(gapText))
			return nil
		}
	case hasID || h.options.Snapshot == nil:
		return nil
	}
	events, err := h.snapshot(ctx, o)
	if err != nil {
		return err
	}
	for i := range events {
		if err := events[i].check(); err != nil {
			return err
		}
		o.first = appendText(o.first, events[i].Name, events[i].Data)
	}
	return nil
}

// meet returns when the log knows the process of m, or does not get to know it. Its first event
// may have reached the client by another process.
func (h *Hub) meet(m mark) {
	for range int(transit / meetInterval) {
		h.mu.Lock()
		isKnown := m.number == 0 || h.log.source(m.run) != nil
		h.mu.Unlock()
		if isKnown {
			return
		}
		time.Sleep(meetInterval)
	}
}

const (
	// transit is how long the first event of a process may take longer to one than to another.
	transit      = 100 * time.Millisecond
	meetInterval = 5 * time.Millisecond
)

// maxSnapshots is how often Snapshot is called for a stream.
const maxSnapshots = 3

// snapshot calls Options.Snapshot, again if events that were published meanwhile are not in the
// history any more.
func (h *Hub) snapshot(ctx *sluice.RequestCtx, o *opening) (events []Event, err error) {
	for range maxSnapshots {
		h.mu.Lock()
		var began uint64
		o.had, began = h.log.position(), h.log.last
		h.mu.Unlock()
		if events, err = h.options.Snapshot(ctx, o.topics); err != nil {
			return nil, err
		}
		h.mu.Lock()
		lost := h.log.lostSince(o.topics, began)
		h.mu.Unlock()
		switch lost {
		case lostNone:
			return events, nil
		case lostSome:
			err = ErrSlow
		}
	}
	return events, err
}

// takeOver arranges that the stream begins when the handler has returned.
func (h *Hub) takeOver(ctx *sluice.RequestCtx, o opening) error {
	ctx.Response.ResetBody()
	o.ended = upgrade.Watched(ctx)
	return upgrade.TakeOver(ctx, upgrade.Takeover{
		Family: h.family, WritesBody: true, Status: sluice.StatusOK, Name: sluice.HeaderContentType, Value: mediaType,
		Open: func(on upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
			return on.(*host).open(c, out, o)
		},
	})
}
