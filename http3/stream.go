package http3

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// A stream is the QUIC stream of a request, with the state of both directions. It is a part of
// its exchange. The goroutine that runs the exchange uses it, and any one reset and what the
// comments of fields say.
type stream struct {
	conn       *conn
	quic       *quic.Stream
	id         uint64
	prev, next *exchange // in conn.streams; conn.mu guards them

	// Input.
	scratch   *scratch // unread input; nil: there is none
	from, to  int      // of scratch.in
	frames    h3.FrameReader
	message   h3.Message
	part      part
	section   []byte // of HEADERS that have not arrived, from the pools
	room      *buf.Buffer
	head      int // bytes that conn.heads counts
	input     inputState
	isStream  bool  // the handler reads the body
	isTunnel  bool  // a tunnel or a bodyConn has used it
	declared  int64 // bytes of the body; -1: unknown
	received  int64
	trailer   *field.Table // nil: there are none
	readDue   atomic.Bool  // setReadDeadline has set a deadline
	keptDue   int64        // when a body that is kept is late, in Nanos; 0: it is streamed
	bytesRead int

	// Output.
	out          *buf.Buffer // what was not written yet; nil: nothing
	output       outputState
	writeTimeout time.Duration // 0: stall
	stall        time.Duration // the StallTimeout
	limiter      func(int) int // progressed; nil: it was not used yet
	bytesWritten int
	inOrder      int                // bytes of large content
	priority     fieldlist.Priority // conn.mu guards it, as the next two
	hasPriority  bool               // priority was named by the client or the handler
	isUpdated    bool               // by PRIORITY_UPDATE, which counts more than the field of the request
	writeErr     error              // why writing has failed
	watch        peerWatch

	wait        atomic.Int64 // when what the stream waits for is late, in Nanos; 0: it does not wait
	waitsFor    atomic.Uint32
	taken       atomic.Int64 // when the client has taken something of a large part, in Nanos
	isReset     atomic.Bool  // by either side
	interrupted atomic.Bool  // ReadBody fails
}

// A part is what a frame has that has begun.
type part uint8

const (
	partNone    part = iota // a frame begins
	partData                // content
	partSection             // fields
	partSkipped             // nothing with a meaning
)

// An inputState is what the client may still send.
type inputState uint8

const (
	inputOpen  inputState = iota
	inputEnded            // nothing: the stream has ended in order
	inputLost             // nothing of use: it was reset, or the connection has ended
)

// An outputState is how far the response is.
type outputState uint8

const (
	outputNone  outputState = iota // no final head was sent
	outputOpen                     // the head was sent, content may follow
	outputEnded                    // all was sent
	outputReset                    // the rest will not be sent
)

// What a stream waits for.
const (
	waitHead uint32 = iota
	waitBody
	waitWrite
)

// open makes s the stream q of c.
func (s *stream) open(c *conn, q *quic.Stream) {
	s.conn, s.quic, s.id = c, q, uint64(q.StreamID())
	s.priority = fieldlist.DefaultPriority()
	s.declared, s.stall = -1, c.serving.config.StallTimeout
}

// forget is the last call. It keeps no memory but that of fields that are reused.
func (s *stream) forget() {
	s.conn, s.quic, s.prev, s.next = nil, nil, nil, nil
	s.dropInput()
	s.dropOutput()
	s.frames, s.message, s.part = h3.FrameReader{}, h3.Message{}, partNone
	s.inOrder, s.hasPriority, s.isUpdated = 0, false, false
	s.input, s.output, s.isStream = inputOpen, outputNone, false
	s.declared, s.received, s.trailer, s.keptDue, s.head = -1, 0, nil, 0, 0
	s.writeTimeout, s.bytesRead, s.bytesWritten = 0, 0, 0
	s.watch.end()
	s.watch.isGone, s.writeErr = false, nil
	for _, flag := range [...]*atomic.Bool{&s.readDue, &s.isReset, &s.interrupted, &s.watch.isUsed} {
		if flag.Load() { // it is rare, and to write it costs more
			flag.Store(false)
		}
	}
	s.wait.Store(0)
}

// dropInput releases the memory of unread input.
func (s *stream) dropInput() {
	if s.scratch != nil {
		scratchPool.Put(s.scratch)
		s.scratch = nil
	}
	s.from, s.to = 0, 0
	s.dropSection()
}

func (s *stream) dropSection() {
	if s.room != nil {
		s.room.Release()
	}
	s.room, s.section = nil, nil
}

// dropOutput releases what was not written.
func (s *stream) dropOutput() {
	if s.out != nil {
		s.out.Release()
		s.out = nil
	}
}

// expect says what the stream waits for, and until when.
func (s *stream) expect(what uint32, due int64) {
	if s.waitsFor.Load() != what {
		s.waitsFor.Store(what)
	}
	s.wait.Store(due)
}

// isLate reports whether what s waits for is late at the time now. It then waits no longer.
func (s *stream) isLate(now int64) bool {
	due := s.wait.Load()
	if due == 0 || due > now || s.waitsFor.Load() == waitWrite && s.taken.Load()+int64(s.stall) > now {
		return false
	}
	return s.wait.CompareAndSwap(due, 0)
}

// expire ends a wait that is late. conn.mu is locked, so that s has not ended.
func (s *stream) expire() {
	if s.waitsFor.Load() == waitBody {
		_ = s.quic.SetReadDeadline(clock.Past()) // it is answered with 408
		return
	}
	s.reset(h3.RequestCancelled)
}

// reset ends both directions at once. Any goroutine may call it while the request is open.
func (s *stream) reset(code h3.Code) {
	if s.isReset.Swap(true) {
		return
	}
	s.quic.CancelRead(quic.StreamErrorCode(code))
	s.quic.CancelWrite(quic.StreamErrorCode(code))
}

// A peerWatch calls a function if the client gives a response up.
type peerWatch struct {
	isUsed atomic.Bool // set has set a function
	notice engine.Notice
	mu     sync.Mutex
	stop   func() bool // of what waits for the end of the stream; nil: there is none
	key    uint64      // of notice: that of the last set
	isGone bool
}

// set makes f what is called when ctx, that of the stream, ends; nil: nothing. What was set before
// has then returned, or is never called.
func (w *peerWatch) set(ctx context.Context, f func()) {
	w.end()
	if f == nil {
		return
	}
	w.isUsed.Store(true)
	w.mu.Lock()
	w.key++
	key := w.key
	w.notice.SetFor(key, f)
	if !w.isGone {
		w.stop = context.AfterFunc(ctx, func() { w.notice.FireFor(key) })
	}
	isGone := w.isGone
	w.mu.Unlock()
	if isGone {
		w.notice.FireFor(key)
	}
}

// gone says that the client has reset its direction.
func (w *peerWatch) gone() {
	w.mu.Lock()
	w.isGone = true
	key := w.key
	w.mu.Unlock()
	w.notice.FireFor(key)
}

// end ends what set has arranged.
func (w *peerWatch) end() {
	if !w.isUsed.Load() {
		return
	}
	w.mu.Lock()
	if w.stop != nil {
		w.stop()
	}
	w.stop = nil
	w.mu.Unlock()
	w.notice.Cancel()
}

// isPeerReset reports whether err is a reset by the client.
func isPeerReset(err error) bool {
	var reset *quic.StreamError
	return errors.As(err, &reset) && reset.Remote
}

// charge charges the client of s, and ends a connection that has used up its budget.
func (s *stream) charge(n int) {
	s.conn.charge(n)
}
