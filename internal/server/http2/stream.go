package http2

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// An inputState is what the peer may still send on a stream.
type inputState uint8

const (
	inputHead      inputState = iota // the rest of the head
	inputOpen                        // a body, kept by the Request
	inputStreamed                    // a body, which Serve reads
	inputDiscarded                   // a body that is of no use
	inputEnded                       // nothing: END_STREAM has arrived
)

// An outputState is how far the response of a stream is.
type outputState uint8

const (
	outputNone  outputState = iota // no final head was sent
	outputOpen                     // the head was sent, content may follow
	outputLast                     // the rest of the response is in the Stream
	outputEnded                    // END_STREAM was sent
	outputReset                    // the stream was reset, by either side, or the connection ended
)

// An owner is who has a stream: who answers its request. Up to ownerProducer, the Conn ends a
// stream as soon as both directions are over; the others say when they are done, with
// Conn.ownerDone. These are all transitions:
//
//	none            → task       Conn.serve
//	none, task      → admission  Conn.postpone
//	admission       → task       Conn.resume
//	admission       → conn       Conn.breakStream
//	task            → producer   Stream.Produce
//	producer        → conn       Stream.closeProducer
//	task            → protocol   Stream.ServeProtocol
//	task, protocol  → tunnel     Tunnel.outliveLocked
//	task, tunnel    → conn       Conn.ownerDone
//	protocol        → conn       protocolConn.releaseStreamLocked
type owner uint8

const (
	ownerNone      owner = iota // the request arrives
	ownerAdmission              // the request is complete, or its body streamed, and waits for room; Conn.deferred counts it
	ownerConn                   // the response is complete, or the rest of it is in the Stream
	ownerProducer               // a Producer, which Stream.streamConn calls
	ownerTask                   // Request.Serve: the Task is queued, or runs
	ownerTunnel                 // a Tunnel after Serve; Conn.tunnels counts it
	ownerProtocol               // the Protocol of Stream.protocol
)

// A waitState is what the goroutine does that reads a stream, or writes a Tunnel.
type waitState uint8

const (
	waitNone        waitState = iota // it does not wait
	waitRuns                         // it waits, until readDue or writeDue
	waitInterrupted                  // of a reader: ReadBody fails from now on
)

// A memoryState is how admission counts the response of a stream.
type memoryState uint8

const (
	memoryNone     memoryState = iota // with Stream.counted, until the stream is over
	memoryBehind                      // with Stream.counted, while the peer takes what the Stream holds
	memoryAdmitted                    // with what one is expected to need; Conn.begun counts it
	memoryCredit                      // the same, and its window was open then; see admission.drainCredit
)

// A Stream carries one request and its response. It is a part of its Exchange, which uses it
// for one request after another.
type Stream struct {
	exchange *Exchange

	conn *Conn
	id   uint32
	next *Stream // in Conn.ended

	input  inputState
	output outputState
	owner  owner
	reader waitState // of ReadBody and Tunnel.Read
	writer waitState // of Tunnel.Write
	memory memoryState

	// Input.
	window      h2.ReceiveWindow
	head        int   // bytes that Conn.heads counts
	declared    int64 // bytes of the body according to the head; -1: unknown
	received    int64 // bytes of the body
	inbox       []byte
	inboxBuffer *buf.Buffer  // of inbox; see keep
	taken       int          // bytes of inbox that ReadBody has returned
	trailer     *field.Table // of a streamed body; nil: there are none
	isConnect   bool         // of an extended CONNECT
	readDue     int64        // when ReadBody stops to wait, in Nanos; 0: never
	lastInput   int64        // when the last part of the body arrived, in Nanos

	// Output. What is to be sent is held, then last.
	sendWindow   h2.SendWindow
	held         []byte        // copied
	heldBuffer   *buf.Buffer   // of held
	last         []byte        // the last part of the content; it belongs to the Request
	writeDue     int64         // when Tunnel.Write stops to wait, in Nanos; 0: never
	writeTimeout time.Duration // how long content may wait for the peer; 0: Config.StallTimeout
	counted      int           // bytes of memory that Conn.waiting counts
	progress     progress      // of the content
	node         h2.Node[Stream]
	inOrder      int // how much content it sends before it shares the connection; see takeTurns

	changed      sync.Cond // something has changed that ReadBody or Send may wait for
	onGone       func()
	streamConn   *streamConn   // of ownerProducer and ownerProtocol; else nil
	protocol     *protocolConn // of ownerProtocol, with streamConn in it; else nil
	promptsFirst bool          // the Task prompts first; see serve
	hasTunnel    bool          // Tunnel was called: it may be used late, whoever has s, so no other request may have s

	isReset atomic.Bool // output is outputReset; for Run, which takes no lock
}

const (
	// maxHeld is how many bytes of a response a Stream copies before Send waits.
	maxHeld = 32 << 10
	// leastHeld is the same while maxWaiting bytes wait on the connection, so that those
	// streams go on whose windows are open.
	leastHeld = 4 << 10
)

// begin prepares a new stream.
func (s *Stream) begin(c *Conn, id uint32, now int64) {
	s.conn, s.id = c, id
	s.node.Owner, s.node.ID = s, id
	s.changed.L = &c.mu
	s.input, s.output, s.owner = inputHead, outputNone, ownerNone
	c.ready.Place(&s.node, fieldlist.DefaultPriority())
	s.inOrder = inOrderSize
	s.declared, s.received, s.head = -1, 0, 0
	s.isConnect, s.reader, s.readDue, s.writeTimeout = false, waitNone, 0, 0
	granted := c.own.InForce.InitialWindowSize
	s.window = h2.NewReceiveWindow(now, granted, min(granted, c.cfg.Settings.InitialWindowSize), c.cfg.MaxStreamWindow)
	s.sendWindow = h2.SendWindow(c.peer.InitialWindowSize)
	if s.isReset.Load() {
		s.isReset.Store(false)
	}
}

// Release forgets the connection. After it, no method may be called until a Host returns
// the Stream for another request.
func (s *Stream) Release() {
	s.conn, s.next, s.last, s.onGone, s.trailer = nil, nil, nil, nil, nil
	s.inbox, s.held, s.taken = s.inbox[:0], s.held[:0], 0
	if cap(s.inbox) > maxHeld {
		s.inbox = nil
	}
}

// keep appends p to held, which is inbox or held. A tunnel lives for long, so its bytes are
// in a buffer of the pools, which emptied returns.
func (s *Stream) keep(b **buf.Buffer, held, p []byte) []byte {
	if s.isConnect && len(held)+len(p) > cap(held) {
		larger := buf.Get(max(len(held)+len(p), 2*cap(held)))
		held = append(larger.B, held...)
		s.emptied(b, nil)
		*b = larger
	}
	return append(held, p...)
}

// emptied returns held without bytes.
func (s *Stream) emptied(b **buf.Buffer, held []byte) []byte {
	if *b == nil {
		if s.streamConn != nil {
			return nil
		}
		return held[:0]
	}
	(*b).Release()
	*b = nil
	return nil
}

// isOver reports whether neither side has anything to do for s.
func (s *Stream) isOver() bool {
	return s.owner <= ownerProducer && (s.output == outputReset || s.output == outputEnded && s.input == inputEnded)
}

// ID returns the number of the stream.
func (s *Stream) ID() uint32 { return s.id }

// OnGone arranges that f is called once, on any goroutine, if the peer resets the
// stream or the connection ends before the response is complete. f is called with
// Conn.mu locked, and must not call the Stream. If that has happened already, f is
// called at once. nil: nothing is called any more.
func (s *Stream) OnGone(f func()) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.output == outputReset {
		if f != nil {
			f()
		}
		return
	}
	s.onGone = f
}

// notify tells who waits for s that something has changed.
func (s *Stream) notify() {
	s.changed.Broadcast()
	if s.owner == ownerProtocol {
		s.protocol.startTaskLocked()
	}
}

// wait waits until something changes. It excuses the Task, because only input can
// make it go on.
func (s *Stream) wait() {
	s.conn.workers.Exempt(1)
	s.changed.Wait()
	s.conn.workers.Exempt(-1)
}

// Run implements engine.Task.
func (s *Stream) Run() {
	if s.promptsFirst {
		s.conn.prompter.Prompt()
	}
	if !s.isReset.Load() && (s.conn.limitsTasks.Load() && s.isPostponed() || s.exchange.serve()) {
		return // s may have ended already
	}
	s.conn.taskDone(s)
}

// Lost implements engine.Task.
func (s *Stream) Lost(err error) {
	s.conn.mu.Lock()
	owner, x := s.owner, s.protocol
	s.conn.mu.Unlock()
	if owner == ownerProtocol {
		x.Lost(err)
		return
	}
	s.conn.taskDone(s)
}
