package websocket

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A Conn is a connection. It may be kept, and used by any number of goroutines; after the
// end of the connection its methods return ErrClosed. Messages are never interleaved, and
// those of one goroutine arrive in order. Each connection has one Conn for all of its life.
type Conn struct {
	host    *host
	guarded *connState // by lock; nil: asleep, with nothing to keep
	target  engine.Target
	index   uint32 // in host.conns
	phase   phase  // lock guards it
	// protocol is the index in Endpoint.Protocols, plus 1; 0: none.
	protocol uint8
	// out and in are how messages are compressed; 0: not. They never change.
	out, in ws.DeflateSide
}

// A phase is how far a connection has come.
type phase uint8

const (
	phaseOpen    phase = iota
	phaseClosing       // a Close frame is sent, or waits; the peer's is awaited
	phaseClosed        // nothing may be sent any more
	phaseMoved         // another process has the connection
)

// A connState is what the lock of a Conn guards, besides its phase: what it needs only while
// it is awake, or only in some programs.
type connState struct {
	session  *session   // nil: asleep, or ended
	value    any        // of Conn.State
	pending  *outbox    // frames that were accepted while no call of the session was running; nil: none
	group    membership // the first one; none: in no Group
	identity *identity  // nil: the Target is enough, and there are callbacks
	calls    *callState // nil: no call of the program has left anything
}

// An identity is what is known of a connection without a Target, and of one with a loop. It
// stays until the end.
type identity struct {
	prompter engine.Prompter
	number   uint64 // the ID
	loop     *loop  // of Endpoint.Accept or Dial; nil: callbacks
	remote   net.Addr
	local    net.Addr
}

// A callState is what calls of the program have left with a Conn. It stays until the end.
type callState struct {
	room    chan struct{}   // of writers: closed when there is room in pending; nil: no writer waits
	pings   []pingWait      // of Conn.Ping, oldest first
	ctx     context.Context // of Conn.Context; nil: not asked for
	cancel  context.CancelCauseFunc
	closing *CloseError  // of a Close while the Conn was asleep
	writer  *writer      // nil: none is open
	groups  []membership // besides connState.group
	moved   []movedRooms // of a loop, in the process from which the connection came
	windows *windows     // of compression; nil: no message refers to others
	dropped uint64       // messages, because the peer is slow
}

type pingWait struct {
	number uint64
	ponged chan struct{}
}

// keepsLocked reports whether m must stay when its connection sleeps.
func (m *connState) keepsLocked() bool {
	return m.value != nil || m.pending != nil || m.group.group != nil || m.identity != nil || m.calls != nil
}

// ensureIdentityLocked returns m.identity, and makes it if it is nil.
func (m *connState) ensureIdentityLocked() *identity {
	if m.identity == nil {
		m.identity = &identity{}
	}
	return m.identity
}

// ensureCallsLocked returns m.calls, and makes it if it is nil.
func (m *connState) ensureCallsLocked() *callState {
	if m.calls == nil {
		m.calls = &callState{}
	}
	return m.calls
}

// notifyLoopLocked tells the goroutine that sends for a loop of Endpoint.Accept that there is output.
func (m *connState) notifyLoopLocked() {
	if l := m.loopLocked(); l != nil {
		l.notifyLocked()
	}
}

// loopLocked returns the loop of Endpoint.Accept or Dial; nil: the connection has callbacks.
func (m *connState) loopLocked() *loop {
	if m.identity == nil {
		return nil
	}
	return m.identity.loop
}

// lock returns the mutex that guards c.guarded and c.phase. Nothing waits while it is held.
// Functions whose names end in Locked are called with it.
func (c *Conn) lock() *shard { return &c.host.locks[c.index%uint32(len(c.host.locks))] }

// ensureStateLocked returns c.guarded, and makes it if it is nil.
func (c *Conn) ensureStateLocked() *connState {
	if c.guarded == nil {
		c.guarded = connStatePool.Get().(*connState)
	}
	return c.guarded
}

// State returns what Upgrade or SetState got. After the end of the connection it is nil.
func (c *Conn) State() any {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.guarded == nil {
		return nil
	}
	return c.guarded.value
}

// SetState replaces the state. It does nothing after the end of the connection.
func (c *Conn) SetState(state any) {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase < phaseClosed {
		c.ensureStateLocked().value = state
	}
}

// Context returns a context that ends with the connection. Its cause is what OnClose gets.
func (c *Conn) Context() context.Context {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase >= phaseClosed && (c.guarded == nil || c.guarded.calls == nil || c.guarded.calls.ctx == nil) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(c.endedLocked())
		return ctx
	}
	r := c.ensureStateLocked().ensureCallsLocked()
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancelCause(context.Background())
	}
	return r.ctx
}

// ID returns a number that no other open connection of the Server and the Endpoint has. It
// is 0 after the end of some connections.
func (c *Conn) ID() uint64 {
	if c.target.Generation != 0 {
		return uint64(c.target.Generation)<<32 | uint64(uint32(c.target.Index))
	}
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.guarded == nil || c.guarded.identity == nil {
		return 0
	}
	return c.guarded.identity.number
}

// Protocol returns the subprotocol; "" if there is none.
func (c *Conn) Protocol() string {
	if c.protocol == 0 {
		return ""
	}
	return c.host.Endpoint.Protocols[c.protocol-1]
}

// RemoteAddr returns the peer's address. Outside callbacks and before the end it is known
// only if it was asked for in a callback before, or with Endpoint.Accept; otherwise it is
// nil.
func (c *Conn) RemoteAddr() net.Addr { remote, _ := c.addrs(); return remote }

// LocalAddr returns the server's address. The rules of RemoteAddr apply.
func (c *Conn) LocalAddr() net.Addr { _, local := c.addrs(); return local }

func (c *Conn) addrs() (remote, local net.Addr) {
	c.lock().Lock()
	defer c.lock().Unlock()
	m := c.guarded
	if m == nil {
		return nil, nil
	}
	if s := m.session; s != nil && s.run != notRunning && m.ensureIdentityLocked().remote == nil {
		m.identity.remote, m.identity.local = s.engine.RemoteAddr(), s.engine.LocalAddr()
	}
	if m.identity == nil {
		return nil, nil
	}
	return m.identity.remote, m.identity.local
}

// connsInChunk is how many Conns are allocated together. A chunk is freed when all of them
// have ended, and no program has kept one; so a connection holds at most this many Conns.
const connsInChunk = 8

// A chunk of Conns. No Conn is used for a second connection, so that a program may keep it.
type chunk [connsInChunk]Conn

// A table finds the Conns of open connections by a number, which a Memo can hold. The zero
// value is empty.
type table struct {
	chunks atomic.Pointer[[]atomic.Pointer[chunk]] // read without mu

	mu     sync.Mutex
	open   []uint8  // for each chunk: Conns that have not ended
	vacant []uint32 // places in chunks without one
	place  uint32   // of the chunk that is being used up
	unused uint32   // its Conns that are not used yet
}

// add returns a new Conn, with its index.
func (t *table) add() *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unused == 0 {
		t.place = t.newPlaceLocked()
		(*t.chunks.Load())[t.place].Store(new(chunk))
		t.unused = connsInChunk
	}
	at := connsInChunk - t.unused
	t.unused--
	t.open[t.place]++
	c := &(*t.chunks.Load())[t.place].Load()[at]
	c.index = t.place*connsInChunk + at
	return c
}

// newPlaceLocked returns a place for a chunk.
func (t *table) newPlaceLocked() uint32 {
	if n := len(t.vacant); n > 0 {
		place := t.vacant[n-1]
		t.vacant = t.vacant[:n-1]
		return place
	}
	place := len(t.open)
	t.open = append(t.open, 0)
	old := t.chunks.Load()
	if old == nil || len(*old) == place {
		grown := make([]atomic.Pointer[chunk], max(2*place, 64))
		for i := range place {
			grown[i].Store((*old)[i].Load())
		}
		t.chunks.Store(&grown)
	}
	return uint32(place)
}

// get returns the Conn with an index, which has not ended.
func (t *table) get(index uint32) *Conn {
	return &(*t.chunks.Load())[index/connsInChunk].Load()[index%connsInChunk]
}

// remove forgets the Conn with an index, which has ended.
func (t *table) remove(index uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := index / connsInChunk
	t.open[place]--
	if t.open[place] > 0 || place == t.place && t.unused > 0 {
		return
	}
	(*t.chunks.Load())[place].Store(nil)
	t.vacant = append(t.vacant, place)
}

// windows are the ends of what was compressed in both directions, for messages that refer
// to it. The lock of the Conn guards them.
type windows struct {
	sent, received []byte
	count          uint64 // of the messages that have changed sent
}

// windowsLocked returns those of c, nil if it has none, or has ended.
func (c *Conn) windowsLocked() *windows {
	if c.guarded == nil || c.guarded.calls == nil {
		return nil
	}
	return c.guarded.calls.windows
}

// A membership is a Group of a Conn, and its place there. The lock of the Conn guards
// group, and that of the group place. The group's lock is taken first.
type membership struct {
	group *Group
	place int32
}

// A host has the connections of an Endpoint on one engine of a Server.
type host struct {
	*settings
	server upgrade.Server
	// isClient: the peers are servers. Frames are masked, those of peers are not.
	isClient bool
	mark     uint64       // Served of the Memos
	life     *engine.Life // of the engine
	conns    table
	numbers  atomic.Uint64 // of pings, and of connections without a Target
	restart  upgrade.Restart
	locks    [64]shard
	closes   closes

	movedMu sync.Mutex
	moved   map[*Conn][]movedRooms // of connections whose OnMoved runs
}

// A shard is a lock of some Conns, and what is counted under it.
type shard struct {
	sync.Mutex
	counts
	_ [16]byte // a cache line to itself
}

// An opening is what the handshake has found out.
type opening struct {
	protocol uint8
	out, in  ws.DeflateSide // how messages are compressed; 0: not
	window   string         // what the peer's next message may refer to
	state    any
	ended    func(error) // nil: nobody waits for the end
	loop     loopKind
	serve    func(*Conn) error // of acceptLoop and serveLoop
	stays    bool              // it cannot move
	// overHTTP2: a stream of HTTP/2 carries it.
	overHTTP2 bool
}

// controls counts the control frames of a peer within a second: the second in the upper
// half, and their number.
type controls int64

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

// A loop connects the goroutine of Endpoint.Accept with the session. The session's Run
// waits until Read has asked for the message, or the part, after the one that it hands over,
// because that is in the engine's buffer. It also waits at the beginning of a message, before
// it is known whether Read or Reader wants it. The lock of the Conn guards the fields.
type loop struct {
	given    handed        // to Read; the session changes it when Read asks
	handed   chan struct{} // something was given; holds one; closed at the end of the connection
	wake     chan struct{} // to Run: something has changed; holds one; nil: Run does not wait
	reads    net.Conn      // whose deadline ends a Fill when flushing ends; nil: it cannot fill
	err      error         // for Read after the end
	question question      // of the call that asks
	asked    uint64        // how often a call has asked
	reading  readState
	kind     loopKind
	isDone   bool // serve has returned
}

// A loopKind says who calls Read.
type loopKind uint8

const (
	noLoop     loopKind = iota // no one: there are callbacks
	acceptLoop                 // a function that Accept got
	serveLoop                  // Endpoint.Serve, which other processes have too
	dialLoop                   // the caller of Dial
)

// A readState is what the goroutine of Accept does.
type readState uint8

const (
	readNot    readState = iota // serve does something else
	readAsks                    // it waits in Read
	readHasOne                  // it has a message, and has not called Read again
)

func newLoop(kind loopKind) *loop {
	return &loop{kind: kind, handed: make(chan struct{}, 1)}
}

// notifyLocked wakes Run, if it waits.
func (l *loop) notifyLocked() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// A question is what a call wants that waits for a message.
type question struct {
	wantsParts bool   // of a message while it arrives
	after      uint64 // handed.asked of the part before; 0: the next message is wanted
}

// handed is a message, or a part of one, that the session hands to the loop.
type handed struct {
	Message
	isRest  bool   // it is not the beginning of a message
	hasMore bool   // more of the message comes
	asked   uint64 // loop.asked when it came
}

// A movedRooms is the Groups of a connection that have one Mover, or none.
type movedRooms struct {
	mark  string // what the Mover says; "" without one
	names []string
}

// groupsLocked returns the Groups of a Conn.
func (m *connState) groupsLocked() (all []*Group) {
	if m.group.group == nil {
		return nil
	}
	all = []*Group{m.group.group}
	if m.calls != nil {
		for _, in := range m.calls.groups {
			all = append(all, in.group)
		}
	}
	return all
}

// isMovable reports whether connections may move to another process.
func (h *host) isMovable() bool { return h.Endpoint.Name != "" && h.server.IsRegistered() }

// restartAt returns when a connection that cannot move is closed because another process
// replaces this one. The times are spread over Endpoint.RestartSpread, so that not all
// clients connect again at once.
func (h *host) restartAt(index uint32) int64 {
	return h.restart.At(index, h.restartSpread, clock.Nanos())
}

// A session is the engine.Protocol of a Conn that is awake.
type session struct {
	host    *host
	conn    *Conn
	engine  engine.Conn
	loop    *loop // of Endpoint.Accept; nil: callbacks
	reader  ws.Reader
	partial *buf.Buffer // the beginning of a message; nil: none
	fed     fed         // what Feed has found for Run
	began   int64       // when the message, or frame, that is incomplete began; 0: there is none
	spare   *connState  // for the next call, of any connection; nil: none
	arrived int64       // when the input came for which s is used again; 0: unknown, or it is handled
	read    int         // bytes of input, since the last call in which they were counted

	controls  controls
	awaits    awaited
	stays     bool // it does not move: no other process wants it
	overHTTP2 bool // by HTTP/2, which counts the bytes
	isOpening bool // in open, or Unpack
	isInParts bool // the loop gets the message that arrives in parts
	isResting bool // at the end of the last call the connection was open, and no message was half sent
	// isDetached: the connection does not know s, until the next call: see attachLocked.
	isDetached bool

	// The lock of conn guards these.
	run     runPhase
	ending  ending
	out     []byte        // output that the engine does not have yet, while run is not notRunning
	counted int           // bytes at the beginning of out that are counted already
	waking  chan struct{} // for loop.wake; nil: not used yet
	flushed chan struct{} // closed after flushing; nil: leave does not wait for it
	err     error         // why the connection ends; the first reason counts

	owned invariants.Pooled // by the engine
}

// A runPhase says whether a call of the engine is running, which sends what is written.
type runPhase uint8

const (
	notRunning runPhase = iota
	running
	flushing // output is written; what comes meanwhile waits in the outbox, and the call does not return
)

// An ending is how the connection ends after the current call.
type ending uint8

const (
	endNot ending = iota
	endClose
	endLinger // the peer may be sending
	endAbort
)

// fed is what Feed has found in a room.
type fed struct {
	opcode     ws.Opcode // of the message that is whole now; OpContinuation: none
	isDeflated bool
	error      error // of the Reader
}

// A tally counts what happens to some Conns. Their lock guards it.
type counts struct{ opened, closed, received, sent, dropped uint64 }

// closes counts the ends of connections by their codes: those from 1000 on, and two groups
// of others.
type closes [registeredCodes + 2]atomic.Uint64

// registeredCodes is how many codes from 1000 on are counted each.
const registeredCodes = 16

// A writer is the io.WriteCloser of a message. The lock of the Conn guards it.
type writer struct {
	conn     *Conn
	ctx      context.Context
	opcode   ws.Opcode // of the next frame
	queued   *outbox   // messages that wait for the end of this one; nil: none
	err      error     // of Write
	isClosed bool
}

// writingLocked returns the writer whose message has begun; nil: there is none.
func (c *Conn) writingLocked() *writer {
	if c.guarded == nil || c.guarded.calls == nil {
		return nil
	}
	if w := c.guarded.calls.writer; w != nil && w.opcode == ws.OpContinuation {
		return w
	}
	return nil
}

// queueLocked returns the outbox in which messages wait; nil: none do.
func (c *Conn) queueLocked() *outbox {
	switch w := c.writingLocked(); {
	case w != nil:
		return w.queued
	case c.guarded != nil:
		return c.guarded.pending
	}
	return nil
}

// endedLocked returns the error of methods of a Conn that is not open.
func (c *Conn) endedLocked() error {
	if c.phase == phaseMoved {
		return ErrMoved
	}
	return ErrClosed
}
