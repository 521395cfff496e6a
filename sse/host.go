package sse

import (
	"math/rand/v2"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// family is the upgrade.Family of a Hub.
type family struct{ hub *Hub }

// A host has the streams of a Hub on one engine of a Server.
type host struct {
	hub     *Hub
	server  upgrade.Server
	restart upgrade.Restart
	streams []*stream // by index; nil: vacant. The lock of the Hub guards them
	vacant  []uint32
	plain   extra // of the streams that have none
}

var _ upgrade.Host = (*host)(nil)

// NewHost implements upgrade.Family.
func (f *family) NewHost(s upgrade.Server) upgrade.Host {
	h := &host{hub: f.hub, server: s}
	h.plain.host = h
	return h
}

// Name implements upgrade.Family.
func (f *family) Name() string {
	if f.hub.options.Name == "" {
		return ""
	}
	return movePrefix + f.hub.options.Name
}

// An opening is how a stream begins.
type opening struct {
	topics []string
	form   form
	first  []byte   // text that is sent first
	had    position // nil: the stream begins with the next event
	isNew  bool     // the client does not know its position
	stays  bool     // it does not move, though it could
	// isMoved: another process has begun it.
	isMoved bool
	ended   func(error) // nil: nobody waits for the end
}

// open begins a stream on a connection; see upgrade.Takeover. The server counts what it
// appends.
func (h *host) open(conn engine.Conn, out []byte, o opening) (engine.Protocol, []byte) {
	x, text := h.begin(conn, o)
	out = x.stream.form.append(out, text)
	if x.streamConn != nil { // it is prompted when the client takes content
		return x, out
	}
	h.hub.mu.Lock()
	defer h.hub.mu.Unlock()
	out, done := h.hub.takeLocked(x.stream, out, flushSize)
	if done != caughtUp {
		x.stream.promptLocked()
	}
	return x, out
}

// begin makes the stream and the session of a connection. It returns the text that is sent
// first.
func (h *host) begin(conn engine.Conn, o opening) (x *session, text []byte) {
	s := &stream{target: conn.Target(), form: o.form, extra: &h.plain}
	if s.target.Generation == 0 {
		s.extra = &extra{host: h, prompter: conn.Prompter()}
	}
	if o.ended != nil {
		s.ensureExtra().ended = o.ended
	}
	h.hub.mu.Lock()
	h.addLocked(s)
	text = h.hub.joinLocked(s, o)
	h.hub.mu.Unlock()
	x = acquireSession(h, s, conn)
	x.stays = o.stays || !conn.CanMove()
	x.streamConn, _ = conn.(upgrade.StreamConn)
	conn.SetWriteTimeout(h.hub.options.WriteTimeout)
	x.arm(clock.Nanos())
	return x, text
}

// addLocked gives s an index; the lock of the Hub is held.
func (h *host) addLocked(s *stream) {
	if n := len(h.vacant); n > 0 {
		s.index = h.vacant[n-1]
		h.vacant = h.vacant[:n-1]
		h.streams[s.index] = s
		return
	}
	s.index = uint32(len(h.streams))
	h.streams = append(h.streams, s)
}

// removeLocked frees the index of s; the lock of the Hub is held.
func (h *host) removeLocked(s *stream) {
	h.streams[s.index] = nil
	h.vacant = append(h.vacant, s.index)
}

// Wake implements upgrade.Host.
func (h *host) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	h.hub.mu.Lock()
	number, _ := h.server.Served(m)
	s := h.streams[number]
	h.hub.mu.Unlock()
	x := acquireSession(h, s, conn)
	x.stays = m.ID&memoStays != 0
	return x
}

// isMovable reports whether streams may move to another process.
func (h *host) isMovable() bool { return h.hub.options.Name != "" && h.server.IsRegistered() }

// restartAt returns when a stream that cannot move ends because another process replaces
// this one.
func (h *host) restartAt(index uint32, now int64) int64 {
	return h.restart.At(index, h.hub.options.RestartSpread, now)
}

// heartbeat returns the silence before a heartbeat of the stream with an index; 0: there is
// none. It differs by a fifth, so that not all come together.
func (h *Hub) heartbeat(index uint32) time.Duration {
	return upgrade.Around(index, h.options.Heartbeat)
}

// reconnectText tells a client when to connect again.
func (h *Hub) reconnectText() []byte {
	retry := max(h.options.Retry, time.Second)
	return appendRetry(nil, retry+rand.N(retry))
}
