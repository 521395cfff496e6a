package websocket

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A host has the connections of an Endpoint on one engine of a Server.
type host struct {
	*settings
	server upgrade.Server
	// isClient: the peers are servers. Frames are masked, those of peers are not.
	isClient bool
	conns    table
	numbers  atomic.Uint64 // of pings, and of connections without a Target
	restart  upgrade.Restart
	locks    [64]shard
	closes   closes

	movedMu sync.Mutex
	moved   map[*Conn][]movedRooms // of connections whose OnMoved runs
}

var _ upgrade.Host = (*host)(nil)

// A shard is a lock of some Conns, and what is counted under it.
type shard struct {
	sync.Mutex
	tally
	_ [16]byte // a cache line to itself
}

// NewHost implements upgrade.Family.
func (set *settings) NewHost(s upgrade.Server) upgrade.Host {
	h := &host{settings: set, server: s}
	set.counting.Lock()
	defer set.counting.Unlock()
	set.hosts = append(set.hosts, h)
	return h
}

// An opening is what the handshake has found out.
type opening struct {
	protocol uint8
	out, in  ws.DeflateSide // how messages are compressed; 0: not
	window   string         // what the peer's next message may refer to
	state    any
	loop     loopKind
	serve    func(*Conn) error // of acceptLoop and serveLoop
	stays    bool              // it cannot move
	// isCarried: a stream of HTTP/2 carries it.
	isCarried bool
}

// open begins a connection; see upgrade.Takeover.
func (h *host) open(conn engine.Conn, out []byte, o opening) (engine.Protocol, []byte) {
	s := h.begin(conn, o)
	return s, s.open(out, o.serve)
}

// begin makes the Conn and the session of a connection.
func (h *host) begin(conn engine.Conn, o opening) *session {
	c := h.conns.add()
	c.host, c.target, c.protocol = h, conn.Target(), o.protocol
	c.lock().Lock()
	c.lock().opened++
	if o.out != 0 {
		c.deflate(o.out, o.in)
	}
	if w := c.windows(); w != nil {
		w.received = append(w.received, o.window...)
	}
	s := acquireSession(h, c, conn)
	s.stays, s.isCarried = o.stays, o.isCarried
	m := c.attach(s)
	m.state = o.state
	if c.target.Generation == 0 {
		a := m.separate()
		a.prompter, a.number = conn.Prompter(), h.numbers.Add(1)
	}
	if o.loop != noLoop {
		s.loop = newLoop(o.loop)
		a := m.separate()
		a.loop, a.remote, a.local = s.loop, conn.RemoteAddr(), conn.LocalAddr()
	}
	c.lock().Unlock()
	conn.SetWriteTimeout(h.writeTimeout)
	return s
}

// The bits of Memo.ID.
const (
	memoPinged  = 1 << iota // session.isPinged
	memoStays               // session.stays
	memoCarried             // session.isCarried
)

// Wake implements upgrade.Host.
func (h *host) Wake(conn engine.Conn, left engine.Memo) engine.Protocol {
	c := h.conns.get(uint32(h.server.Served(left)))
	s := acquireSession(h, c, conn)
	s.isPinged, s.stays, s.isCarried = left.ID&memoPinged != 0, left.ID&memoStays != 0, left.ID&memoCarried != 0
	s.controls = controls(left.Opened)
	c.lock().Lock()
	m := c.attach(s)
	s.loop = m.loop()
	if r := m.rare(); r != nil && r.closing != nil {
		s.note(r.closing)
	}
	c.lock().Unlock()
	return s
}

// controls counts the control frames of a peer within a second: the second in the upper
// half, and their number.
type controls int64

// add counts a control frame. It returns false if there are too many.
func (n *controls) add() bool {
	second := clock.Nanos() >> 30 // nearly
	if int64(*n)>>32 != second {
		*n = controls(second << 32)
	}
	*n++
	return uint32(*n) <= maxControls
}

// head returns the head of a frame with op, without its length.
func (h *host) head(op ws.Opcode) ws.Head {
	if h.isClient {
		return ws.Head{Opcode: op, IsMasked: true, Key: newKey()}
	}
	return ws.Head{Opcode: op}
}

// newKey returns the key of a mask, which the peer and pages of the web cannot foresee (RFC
// 6455 section 10.3): the source is ChaCha8, with a seed of the system.
func newKey() ws.Key { return ws.Key(rand.Uint32()) }
