package websocket

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"unicode/utf8"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A Kind is the type of a message.
type Kind uint8

// The kinds of messages. A received Text is valid UTF-8. One that is sent must be; it is
// not checked.
const (
	Text   = Kind(ws.OpText)
	Binary = Kind(ws.OpBinary)
)

// String returns "text" or "binary".
func (k Kind) String() string {
	switch k {
	case Text:
		return "text"
	case Binary:
		return "binary"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// A Message is one that was received. Data is valid until OnMessage returns, or until the
// next Read, or Close of a connection of Dial; it may be modified.
type Message struct {
	Kind Kind   // Text or Binary
	Data []byte // the payload of all fragments; empty for an empty message
}

// A Conn is a connection. It may be kept, and used by any number of goroutines; after the
// end of the connection its methods return ErrClosed. Messages are never interleaved, and
// those of one goroutine arrive in order. Each connection has one Conn for all of its life.
type Conn struct {
	host   *host
	more   *extra // nil: asleep, with nothing to keep
	target engine.Target
	index  uint32 // in host.conns
	phase  phase
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

// An extra is what a Conn needs only while it is awake, or only in some programs.
type extra struct {
	session *session // nil: asleep, or ended
	state   any
	pending *outbox       // frames that were accepted while no call of the session was running; nil: none
	room    chan struct{} // closed when there is room in pending; nil: nobody waits
	group   membership    // the first one; none: in no Group
	apart   *apart        // nil: none of it
}

// An apart is what Conns without a Target have, and those with a loop, and few others. It
// stays until the end.
type apart struct {
	prompter engine.Prompter
	number   uint64 // the ID
	loop     *loop  // of Endpoint.Accept; nil: callbacks
	remote   net.Addr
	local    net.Addr
	rare     *rare // nil: none of it
}

// A rare is what few Conns have. It stays until the end.
type rare struct {
	pings   []pingWait      // of Conn.Ping, oldest first
	ctx     context.Context // of Conn.Context; nil: not asked for
	cancel  context.CancelCauseFunc
	closing *CloseError  // of a Close while the Conn was asleep
	writer  *writer      // nil: none is open
	groups  []membership // besides extra.group
	moved   []movedRooms // of a loop, in the process from which the connection came
	windows *windows     // of compression; nil: no message refers to others
	dropped uint64       // messages, because the peer is slow
}

type pingWait struct {
	number uint64
	ponged chan struct{}
}

// keeps tells whether m must stay when its connection sleeps.
func (m *extra) keeps() bool {
	return m.state != nil || m.pending != nil || m.room != nil || m.group.group != nil || m.apart != nil
}

// separate returns m.apart, and makes it if it is nil; the lock is held.
func (m *extra) separate() *apart {
	if m.apart == nil {
		m.apart = &apart{}
	}
	return m.apart
}

// rare returns what few Conns have, nil if there is none of it; the lock is held.
func (m *extra) rare() *rare {
	if m.apart == nil {
		return nil
	}
	return m.apart.rare
}

// rarely is rare, but makes it if it is nil.
func (m *extra) rarely() *rare {
	a := m.separate()
	if a.rare == nil {
		a.rare = &rare{}
	}
	return a.rare
}

// pokeLoop tells the goroutine that sends for a loop of Endpoint.Accept that there is output.
func (m *extra) pokeLoop() {
	if l := m.loop(); l != nil {
		l.poke()
	}
}

// loop returns the loop of Endpoint.Accept; nil: the connection has callbacks.
func (m *extra) loop() *loop {
	if m.apart == nil {
		return nil
	}
	return m.apart.loop
}

// ended returns the error of methods of a Conn that is not open; the lock is held.
func (c *Conn) ended() error {
	if c.phase == phaseMoved {
		return ErrMoved
	}
	return ErrClosed
}

// lock returns the mutex that guards c, except for the fields that never change. Nothing
// waits while it is held.
func (c *Conn) lock() *shard { return &c.host.locks[c.index%uint32(len(c.host.locks))] }

// extra returns c.more, and makes it if it is nil; the lock is held.
func (c *Conn) extra() *extra {
	if c.more == nil {
		c.more = extraPool.Get().(*extra)
	}
	return c.more
}

// attach gives c the session that it has while it is awake; the lock is held.
func (c *Conn) attach(s *session) *extra {
	m := c.extra()
	m.session = s
	return m
}

// Write sends a message. It returns when the message is accepted, not when the peer has
// it. If MaxPending bytes wait for the peer, Write waits, at most until ctx ends: then
// nothing of the message is sent, and the connection stays open. It copies p.
func (c *Conn) Write(ctx context.Context, k Kind, p []byte) error {
	if k != Text && k != Binary {
		return ErrKind
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := message{kind: k, p: p}
	c.pack(&w)
	defer w.release()
	mu := c.lock()
	mu.Lock()
	for {
		switch {
		case c.phase != phaseOpen:
			defer mu.Unlock()
			return c.ended()
		case !c.fits(&w):
			mu.Unlock()
			c.pack(&w)
			mu.Lock()
			continue
		case c.hasRoom(w.size()):
			c.append(&w)
			mu.Unlock()
			return nil
		}
		if err := c.awaitRoom(ctx); err != nil {
			mu.Unlock()
			return err
		}
	}
}

// awaitRoom waits for room, or for the end of a Writer or of the connection. The lock is held,
// but not while it waits.
func (c *Conn) awaitRoom(ctx context.Context) error {
	m, mu := c.extra(), c.lock()
	if m.room == nil {
		m.room = make(chan struct{})
	}
	room := m.room
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryWrite is Write, but it never waits: if there is no room it does what Endpoint.Slow
// says.
func (c *Conn) TryWrite(k Kind, p []byte) error {
	if k != Text && k != Binary {
		return ErrKind
	}
	m := message{kind: k, p: p}
	c.pack(&m)
	defer m.release()
	c.lock().Lock()
	defer c.lock().Unlock()
	if !c.fits(&m) {
		c.lock().Unlock()
		c.pack(&m)
		c.lock().Lock()
	}
	return c.offer(&m, c.host.Endpoint.Slow)
}

// hasRoom tells whether a message of size bytes may wait; the lock is held.
func (c *Conn) hasRoom(size int) bool {
	w := c.writing()
	if w == nil {
		return c.hasOutputRoom(size)
	}
	held := 0
	if w.queued != nil {
		held = w.queued.bytes
	}
	return (held == 0 || held+size <= c.host.maxPending) && c.host.pendingTotal.fits(held, size)
}

// hasOutputRoom tells whether size more bytes may wait for the peer; the lock is held.
func (c *Conn) hasOutputRoom(size int) bool {
	m := c.more
	if m == nil {
		return true
	}
	limit := c.host.maxPending
	if m.pending != nil {
		return m.pending.bytes+size <= limit && c.host.pendingTotal.fits(m.pending.bytes, size)
	}
	s := m.inCall()
	if s != nil && (len(s.out) == 0 || len(s.out)+size <= limit) {
		return true
	}
	if !c.host.pendingTotal.fits(0, size) {
		return false
	}
	if s != nil && m.loop() == nil {
		s.beginFlush()
	} else if s != nil {
		c.waiting(m) // its call sends the output first
	}
	return true
}

// dropOutbox drops what waits; the lock is held.
func (m *extra) dropOutbox() {
	if m.pending != nil {
		releaseOutbox(m.pending)
		m.pending = nil
	}
}

// dropBehind drops the messages that wait for the end of another; the lock is held.
func (m *extra) dropBehind() {
	if m.rare() == nil || m.rare().writer == nil {
		return
	}
	if w := m.rare().writer; w.queued != nil {
		releaseOutbox(w.queued)
		w.queued = nil
	}
}

// makeRoom wakes the writers that wait for room; the lock is held.
func (m *extra) makeRoom() {
	if m.room != nil {
		close(m.room)
		m.room = nil
	}
}

// Close sends a Close frame and returns at once. The connection ends when the peer has
// answered, or after Endpoint.CloseWithin. OnMessage is not called any more. reason is for
// logs, at most 123 bytes of UTF-8. With CodeNone the frame has neither. It returns
// ErrCode if code or reason must not be sent, and ErrClosed if c is closing already.
func (c *Conn) Close(code Code, reason string) error {
	if code != CodeNone && !ws.Code(code).MaySend() || len(reason) > ws.MaxReason || !utf8.ValidString(reason) {
		return ErrCode
	}
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase != phaseOpen {
		return c.ended()
	}
	c.close(&CloseError{Code: code, Reason: reason})
	return nil
}

// close sends a Close frame. err is why, for OnClose. The lock is held, and c is open.
func (c *Conn) close(err *CloseError) {
	m := c.extra()
	if m.session != nil {
		m.session.note(err)
	} else {
		m.rarely().closing = err
	}
	var body [ws.MaxControl]byte
	m.dropBehind()
	c.appendFrame(ws.Head{Opcode: ws.OpClose}, ws.AppendClose(body[:0], ws.Code(err.Code), err.Reason))
	c.phase = phaseClosing
	if l := m.loop(); l != nil && l.kind == dialLoop { // no further Read is needed
		l.isDone = true
		l.poke()
	}
	m.makeRoom() // writers return ErrClosed
}

// Ping sends a ping, and returns at the peer's answer. It returns ctx's error if ctx ends
// first, and ErrClosed if the connection ends. Do not call it in a callback, which delays
// the answer. Read takes the answer, too: without callbacks, another goroutine must be in
// Read meanwhile, or for connections of Accept, no message may wait for it.
func (c *Conn) Ping(ctx context.Context) error {
	c.lock().Lock()
	if c.phase != phaseOpen {
		defer c.lock().Unlock()
		return c.ended()
	}
	wait := pingWait{number: c.host.numbers.Add(1), ponged: make(chan struct{})}
	r := c.extra().rarely()
	r.pings = append(r.pings, wait)
	var payload [8]byte
	binary.BigEndian.PutUint64(payload[:], wait.number)
	c.appendFrame(ws.Head{Opcode: ws.OpPing}, payload[:])
	c.lock().Unlock()
	select {
	case <-wait.ponged:
	case <-ctx.Done():
	}
	c.lock().Lock()
	defer c.lock().Unlock()
	select {
	case <-wait.ponged:
	default:
		c.forgetPing(wait.number)
		return ctx.Err()
	}
	if c.phase >= phaseClosed {
		return c.ended()
	}
	return nil
}

// forgetPing removes a ping that nobody waits for any more; the lock is held.
func (c *Conn) forgetPing(number uint64) {
	pings := c.more.rare().pings
	for i := range pings {
		if pings[i].number == number {
			c.more.rare().pings = append(pings[:i:i], pings[i+1:]...)
			return
		}
	}
}

// ponged ends the pings up to the one that payload answers (RFC 6455 section 5.5.3).
func (c *Conn) ponged(payload []byte) {
	if len(payload) != 8 {
		return
	}
	number := binary.BigEndian.Uint64(payload)
	c.lock().Lock()
	defer c.lock().Unlock()
	r := c.more.rare()
	if r == nil {
		return
	}
	for i := range r.pings {
		if r.pings[i].number == number {
			r.endPings(i + 1)
			return
		}
	}
}

// endPings ends the first n pings; the lock is held.
func (r *rare) endPings(n int) {
	for _, p := range r.pings[:n] {
		close(p.ponged)
	}
	r.pings = r.pings[n:]
}

// State returns what Upgrade or SetState got. After the end of the connection it is nil.
func (c *Conn) State() any {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.more == nil {
		return nil
	}
	return c.more.state
}

// SetState replaces the state. It does nothing after the end of the connection.
func (c *Conn) SetState(state any) {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase < phaseClosed {
		c.extra().state = state
	}
}

// Context returns a context that ends with the connection. Its cause is what OnClose gets.
func (c *Conn) Context() context.Context {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase >= phaseClosed && (c.more == nil || c.more.rare() == nil || c.more.rare().ctx == nil) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(c.ended())
		return ctx
	}
	r := c.extra().rarely()
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
	if c.more == nil || c.more.apart == nil {
		return 0
	}
	return c.more.apart.number
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
	m := c.more
	if m == nil {
		return nil, nil
	}
	if s := m.session; s != nil && s.run != notRunning && m.separate().remote == nil {
		m.apart.remote, m.apart.local = s.engine.RemoteAddr(), s.engine.LocalAddr()
	}
	if m.apart == nil {
		return nil, nil
	}
	return m.apart.remote, m.apart.local
}

// Pending returns how many bytes wait to be sent. Those that the system has taken do not
// count.
func (c *Conn) Pending() int {
	c.lock().Lock()
	defer c.lock().Unlock()
	m, n := c.more, 0
	if m == nil {
		return 0
	}
	if m.pending != nil {
		n = m.pending.bytes
	}
	if m.session != nil {
		n += len(m.session.out)
	}
	if w := c.writing(); w != nil && w.queued != nil {
		n += w.queued.bytes
	}
	return n
}
