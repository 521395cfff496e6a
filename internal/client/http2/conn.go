package http2

import (
	"context"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A Watcher learns what a pool has to know of a connection. Its methods are called
// without the Conn's lock, one after the other, in the order of the events, on the
// goroutine of any caller of the Conn.
type Watcher interface {
	// LimitChanged is called with the first SETTINGS of the peer, and when the peer
	// changes how many streams it admits: Conn.Limit.
	LimitChanged(limit int)
	// Ended is called once, when the connection takes no new streams any more: after
	// GOAWAY, an error, Drain or Close. Open streams may go on. The Conn closes itself
	// after the last one.
	Ended(err error)
}

// A connPhase is how far the life of a connection is.
type connPhase uint8

const (
	phaseOpen     connPhase = iota
	phaseDraining           // no new streams; it closes after the last one
	phaseBroken             // nothing can be written; what comes is read until the end
	phaseFailed             // no streams; what is in out is written, then it closes
	phaseClosed
)

// A notice is what the Watcher has not been told.
type notice uint8

const (
	noticeLimit notice = 1 << iota
	noticeEnded
)

// A block is a field block that arrives.
type block struct {
	stream *Stream // nil: none has it
	kind   fieldlist.Kind
	refuse *h2.Error // what the stream is reset with after the block; nil: nothing
}

// A Conn is one connection. Its methods may be called concurrently.
type Conn struct {
	conn    net.Conn
	cfg     Config
	watcher Watcher
	peek    pool.Peeker

	mu      sync.Mutex
	phase   connPhase
	failure error // why phase is not phaseOpen
	code    h2.Code
	streams map[uint32]*Stream
	nextID  uint32
	limit   int // of streams

	notices     notice
	isNotifying bool // on some goroutine
	isReleased  bool // conn.Close was called, or is about to be

	reading
	writing

	// Input.
	parser      h2.Parser
	decoder     h2.Decoder
	head        fieldlist.Head
	trailer     field.Table
	block       block
	own         h2.OwnSettings
	budget      h2.Budget
	window      h2.ReceiveWindow
	growth      h2.Growth
	peer        h2.PeerSettings
	hasSettings bool // the first SETTINGS frame has come

	health
	// due is not later than the earliest time at which something is due: the health of the
	// connection, or a Stream's due; 0: nothing is.
	due int64
}

// NewConn returns the Conn of a new net.Conn, which it owns. Nothing is written or read
// before the first Do: the preface leaves with the first request. watcher may be nil.
func NewConn(conn net.Conn, cfg *Config, watcher Watcher) *Conn {
	now := clock.Nanos()
	c := &Conn{
		conn: conn, cfg: cfg.withDefaults(), watcher: watcher,
		streams: make(map[uint32]*Stream), nextID: 1, limit: assumedStreams,
		own: h2.NewOwnSettings(), peer: h2.NewPeerSettings(),
	}
	c.lastRead, c.pingAfter = now, c.cfg.PingAfter
	c.peek.Init(conn)
	c.parser.Side = h2.ClientSide
	c.parser.MaxContinuations = c.cfg.continuations()
	c.decoder.Limits = c.cfg.Limits
	c.decoder.Reset()
	c.encoder.Reset(c.cfg.Pairs)
	initial := c.peer.InitialWindowSize
	c.sendWindow = h2.SendWindow(initial)
	c.window = h2.NewReceiveWindow(now, initial, c.cfg.ConnWindow, c.cfg.MaxConnWindow)
	c.growth.Room = int64(c.cfg.MaxConnWindow)
	c.out = append(c.out, h2.Preface...)
	c.out, _ = c.own.Send(c.out, c.cfg.settings())
	if increment := c.window.Update(now, &c.growth); increment > 0 {
		c.out = h2.AppendWindowUpdate(c.out, 0, increment)
	}
	return c
}

// Do sends the request of s and receives the response. It returns nil when the response
// is complete or, if it is streamed, when its head has come. Any other result is an
// *Error; then the stream has ended, and other streams go on. Beyond Limit, the result
// is ErrFull, with the Outcome Unsent.
func (c *Conn) Do(s *Stream) error {
	c.mu.Lock()
	defer c.unlock()
	c.catchUp(&s.receiver)
	if s.IsConnect && !c.hasSettings {
		c.awaitSettings(s)
	}
	if err := c.begin(s); err != nil {
		return err
	}
	c.flush(&s.receiver)
	for {
		if len(s.heads) > 0 {
			c.passInterims(s)
		} else if s.state != streamOpen || s.input >= inputStreamed {
			break
		} else {
			c.await(&s.receiver)
		}
	}
	isAccepted := s.isTunnel && s.input >= inputStreamed // Tunnel.Read has what came before an end
	if s.input < inputStreamed || s.err != nil {
		s.join()
	}
	if s.err != nil && !isAccepted {
		return s.err
	}
	s.due = 0
	if s.isTunnel {
		c.endWatch(s)
	}
	return nil
}

// passInterims gives the Request the interim heads that have come, without the lock.
func (c *Conn) passInterims(s *Stream) {
	heads, hasReturned := s.heads, false
	s.heads = nil
	c.unlock()
	defer func() {
		c.mu.Lock()
		if !hasReturned { // the Request panics
			c.cancel(s, ErrClosed)
			c.flush(nil)
			s.join()
		}
	}()
	for i := range heads {
		s.Request.InterimReceived(&heads[i].head, &heads[i].fields)
	}
	hasReturned = true
}

// awaitSettings waits for the first SETTINGS of the peer, for as long as s may be opened.
func (c *Conn) awaitSettings(s *Stream) {
	w := &s.receiver
	w.until = s.Deadline
	if s.Context != nil {
		defer context.AfterFunc(s.Context, func() {
			c.mu.Lock()
			defer c.unlock()
			c.wake(w)
		})()
	}
	c.flush(w) // the preface
	for !c.hasSettings && c.refusal(s, clock.Nanos()) == nil {
		c.awaitingSettings = append(c.awaitingSettings, w)
		c.await(w)
		c.awaitingSettings = slices.DeleteFunc(c.awaitingSettings, func(other *waiter) bool { return other == w })
	}
}

// signalSettings makes awaitSettings look again.
func (c *Conn) signalSettings() {
	for _, w := range c.awaitingSettings {
		c.wake(w)
	}
}

// begin opens s, and appends its head.
func (c *Conn) begin(s *Stream) *Error {
	now := clock.Nanos()
	s.id = 0
	if c.pingDue != 0 {
		c.endIfSilentUnread(now)
	}
	switch err := c.refusal(s, now); {
	case err != nil:
		return &Error{Outcome: Unsent, Err: err}
	case c.nextID > h2.MaxStream:
		c.drain(ErrGoingAway)
		return &Error{Outcome: Unsent, Err: ErrGoingAway}
	}
	s.begin(c, now)
	c.streams[s.id] = s
	c.setDue(s.due)
	c.appendRequest(s, now)
	c.pingAfter = c.cfg.PingAfter
	c.setDue(c.checkHealth(now))
	if ctx := s.Context; ctx != nil && ctx.Done() != nil {
		id := s.id
		s.unwatch = context.AfterFunc(ctx, func() { c.contextEnded(id, ctx) })
	}
	if s.Source != nil {
		s.upload = uploadReading
		go s.readSource()
	}
	return nil
}

// refusal returns why s cannot be opened, or nil.
func (c *Conn) refusal(s *Stream, now int64) error {
	switch {
	case s.Context != nil && s.Context.Err() != nil:
		return context.Cause(s.Context)
	case s.Deadline != 0 && s.Deadline <= now:
		return os.ErrDeadlineExceeded
	case c.failure != nil:
		return c.failure
	case c.phase != phaseOpen:
		return ErrGoingAway
	case s.IsConnect && c.hasSettings && !c.peer.EnableConnectProtocol:
		return streams.ErrNoConnect
	case len(c.streams) >= c.limit:
		return ErrFull
	}
	return nil
}

// Limit returns how many streams may be open at once: 100 until the first SETTINGS of the
// peer, then what the peer admits, at most 1000; 0 if the connection takes no new ones.
func (c *Conn) Limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseOpen {
		return 0
	}
	return c.limit
}

// Streams returns how many streams are open.
func (c *Conn) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

// Look handles what has come while nobody read, for example PING and GOAWAY. Call it now
// and then for a connection without streams.
func (c *Conn) Look() {
	c.mu.Lock()
	defer c.unlock()
	c.catchUp(new(waiter))
}

// NetConn returns the net.Conn. It must not be read from, written to or closed.
func (c *Conn) NetConn() net.Conn { return c.conn }

// Drain makes the connection take no new streams, and close after the last one.
func (c *Conn) Drain() {
	c.mu.Lock()
	defer c.unlock()
	c.drain(ErrClosed)
	c.flush(nil)
}

// Close ends all streams with ErrClosed, says GOAWAY and closes the net.Conn. It waits at
// most a second for the writing.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.unlock()
	c.end(ErrClosed, h2.CodeNoError)
	now := clock.Nanos()
	c.limitWrite(now+closeTime, now)
	c.flush(nil)
	return nil
}

// drain takes no new streams, because of err.
func (c *Conn) drain(err error) {
	if c.phase == phaseOpen {
		c.phase, c.failure = phaseDraining, err
		c.notices |= noticeEnded
		c.signalSettings()
	}
	c.endIfDone()
}

// endIfDone ends a connection that takes no new streams and has none.
func (c *Conn) endIfDone() {
	if len(c.streams) == 0 && (c.phase == phaseDraining || c.phase == phaseBroken) {
		c.end(c.failure, h2.CodeNoError)
	}
}

// fail ends the connection because of err, a violation by the peer.
func (c *Conn) fail(err *h2.Error) { c.end(err, err.Code) }

// end ends the connection with GOAWAY, which the next flush writes.
func (c *Conn) end(err error, code h2.Code) {
	switch {
	case c.phase >= phaseFailed:
		return
	case c.phase == phaseBroken:
		c.closeNow(err)
		return
	}
	c.out = c.out[:0] // streams with a head there are Unsent
	if c.offered > 0 && !c.isCut {
		c.out = h2.AppendGoAway(c.out, 0, code, "")
	}
	c.phase = max(c.phase, phaseFailed)
	c.finishAll(err)
}

// brokenTime is how long what has come is read after writing has failed.
const brokenTime = time.Second

// stopWriting stops writing, which has failed with err. What the peer has sent before still
// counts: responses, and the GOAWAY that tells which requests it has not processed.
func (c *Conn) stopWriting(err error) {
	if c.phase >= phaseBroken {
		c.closeNow(err)
		return
	}
	c.phase = phaseBroken
	if c.failure == nil {
		c.failure = err
		c.notices |= noticeEnded
	}
	for _, s := range c.streams {
		if s.start >= c.offered {
			c.finish(s, &Error{Outcome: Unsent, Err: err})
		}
	}
	c.pingDue = clock.Nanos() + int64(brokenTime)
	c.setDue(c.pingDue)
	c.endIfDone()
}

// closeNow closes the connection at once, because of err: nothing can be written or read.
func (c *Conn) closeNow(err error) {
	if c.phase == phaseClosed {
		return
	}
	c.phase = phaseClosed
	c.finishAll(err)
}

// finishAll ends all streams with err.
func (c *Conn) finishAll(err error) {
	if c.failure == nil {
		c.failure = err
		c.notices |= noticeEnded
	}
	for _, s := range c.streams {
		outcome := MaybeProcessed
		if s.start >= c.offered {
			outcome = Unsent
		}
		cause := err
		if err == io.EOF && s.input != inputHead {
			cause = io.ErrUnexpectedEOF
		}
		c.finish(s, &Error{Outcome: outcome, Code: c.code, Err: cause})
	}
	c.signalSettings()
}

// unlock unlocks mu. Before that, it tells the Watcher what has happened, and gives idle
// memory back; after it, the net.Conn is closed if that is due.
func (c *Conn) unlock() {
	for c.notices != 0 && !c.isNotifying {
		notices, limit, err := c.notices, c.limit, c.failure
		c.notices = 0
		if c.watcher == nil {
			break
		}
		c.isNotifying = true
		c.mu.Unlock()
		if notices&noticeLimit != 0 {
			c.watcher.LimitChanged(limit)
		}
		if notices&noticeEnded != 0 {
			c.watcher.Ended(err)
		}
		c.mu.Lock()
		c.isNotifying = false
	}
	isDue := c.phase == phaseClosed && !c.isReleased
	c.isReleased = c.isReleased || isDue
	c.mu.Unlock()
	switch { // nothing can be done about an error
	case !isDue:
	case c.cfg.IsTLS:
		go func() { _ = c.conn.Close() }() // which may wait to send the last alert
	default:
		_ = c.conn.Close()
	}
}

// contextEnded ends a stream whose Context has ended.
func (c *Conn) contextEnded(id uint32, ctx context.Context) {
	c.mu.Lock()
	defer c.unlock()
	if s := c.streams[id]; s != nil && !s.isTunnel {
		c.cancel(s, context.Cause(ctx))
		c.flush(nil)
	}
}

// cancel resets s because of err, which is not a fault of the peer.
func (c *Conn) cancel(s *Stream, err error) { c.resetWith(s, h2.CodeCancel, err) }

// resetWith resets s, and makes err the cause of its end.
func (c *Conn) resetWith(s *Stream, code h2.Code, err error) {
	if s.state != streamOpen {
		return
	}
	c.out = h2.AppendReset(c.out, s.id, code)
	c.budget.Abandon(s.window.Left())
	c.finish(s, &Error{Err: err}) // a head that is still in out leaves too
}

// finish ends s and wakes who waits for it. err is nil if the response is complete.
func (c *Conn) finish(s *Stream, err *Error) {
	if s.state != streamOpen {
		return
	}
	s.state, s.err = streamEnded, err
	delete(c.streams, s.id)
	c.ready.Remove(&s.node)
	if !s.isTunnel { // its Write counts what was not sent
		s.content = nil
	}
	s.window.Shrink(&c.growth)
	if c.block.stream == s {
		c.block.stream, c.block.kind = nil, fieldlist.Unwanted
		c.decoder.Discard()
	}
	c.endWatch(s)
	s.moved.Broadcast()
	c.wake(&s.receiver)
	c.wake(&s.sender)
	if len(c.streams) == 0 && !c.isWriting {
		c.out, c.spare = trim(c.out), trim(c.spare)
	}
	c.endIfDone()
}

// endWatch ends the watch of the Context of s.
func (c *Conn) endWatch(s *Stream) {
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
}

// trim gives memory back that an idle connection does not need.
func trim(b []byte) []byte {
	if len(b) == 0 && cap(b) > keptOut {
		return nil
	}
	return b
}

// reading is the part of a Conn that reads.
type reading struct {
	leader           *waiter   // reads for all; nil: none waits
	isReading        bool      // the leader is in conn.Read, without the lock
	waiting          *waiter   // the newest of the callers that wait for the leader
	awaitingSettings []*waiter // those that wait for the first SETTINGS
	in               *buf.Buffer
	// readLimit is the deadline of conn for reads, in Nanos; 0: none; passed: it is over.
	readLimit int64
}

// passed is a deadline that has passed.
const passed = math.MinInt64
