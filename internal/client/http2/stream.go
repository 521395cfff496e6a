package http2

import (
	"io"
	"sync"

	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A Stream carries one request and its response. The caller sets the exported fields,
// calls Conn.Do, and may use it again when Do has returned, or after Close if the body
// is streamed. They must not change meanwhile. The zero value is ready. A Stream must
// not be copied after its first use.
type Stream struct {
	streams.Params
	conn  *Conn
	id    uint32
	start int64 // where its head begins in all that is written
	state streamState
	err   *Error // why it has ended; nil: the response is complete
	due   int64  // when it ends at the latest, in Nanos; 0: never

	receiver waiter      // in Do, or Read
	unwatch  func() bool // ends the watch of Context; nil: there is none
	isTunnel bool        // a 2xx response to IsConnect has come

	// Input.
	input    inputState
	interims uint8
	heads    []interim // that Request.InterimReceived has not got
	declared int64     // bytes of the body according to the head; -1: unknown
	received int64     // bytes of the body
	window   h2.ReceiveWindow
	inbox    []byte
	taken    int // bytes of inbox that Read has returned

	// Output.
	sendWindow h2.SendWindow
	node       h2.Node[Stream]
	content    []byte // waits to be sent
	output     outputState
	upload     uploadState
	moved      sync.Cond // content was sent, the stream or the upload has ended
	sender     waiter    // in Tunnel.Write
}

// An interim is an interim head.
type interim struct {
	head   fieldlist.Head
	fields field.Table
}

// A streamState is whether a Stream carries a request.
type streamState uint8

const (
	streamNone streamState = iota
	streamOpen
	streamEnded
)

// An inputState is what comes next of the response.
type inputState uint8

const (
	inputHead     inputState = iota
	inputBody                // for Request.BodyReceived
	inputStreamed            // for Read
	inputEnded               // nothing, in a Tunnel
)

// An outputState is how far the request is.
type outputState uint8

const (
	outputOpen  outputState = iota // more may follow content
	outputLast                     // content is the last part
	outputEnded                    // the request is complete
)

// An uploadState is what the goroutine of a Source does.
type uploadState uint8

const (
	uploadNone uploadState = iota
	uploadReading
	uploadSending
)

// keptInbox is how much memory a Stream keeps for the next response.
const keptInbox = 32 << 10

// begin prepares the next stream of c.
func (s *Stream) begin(c *Conn, now int64) {
	s.conn, s.id = c, c.nextID
	c.nextID += 2
	s.state, s.err, s.isTunnel = streamOpen, nil, false
	s.receiver.isSignalled, s.receiver.until, s.sender.until = false, 0, 0
	s.due = s.Deadline
	timeout := s.WriteTimeout
	if s.IsConnect {
		timeout = s.ReadTimeout
	}
	if timeout > 0 {
		s.due = earlier(s.due, clock.Later(now, timeout))
	}
	s.input, s.interims, s.declared, s.received = inputHead, 0, -1, 0
	s.dropInbox()
	s.heads = nil
	s.content, s.output, s.upload = nil, outputOpen, uploadNone
	s.moved.L = &c.mu
	s.node.Owner, s.node.ID = s, s.id
	c.ready.Place(&s.node, fieldlist.Priority{Urgency: 3, IsIncremental: true})
	granted := c.own.InForce.InitialWindowSize
	s.window = h2.NewReceiveWindow(now, granted, min(granted, c.cfg.StreamWindow), c.cfg.MaxStreamWindow)
	s.sendWindow = h2.SendWindow(c.peer.InitialWindowSize)
}

// dropInbox forgets what was not read.
func (s *Stream) dropInbox() {
	if s.inbox, s.taken = s.inbox[:0], 0; cap(s.inbox) > keptInbox {
		s.inbox = nil
	}
}

// Sent reports, after Do has opened a stream, whether all of the request was passed on for
// writing: its failure came later.
func (s *Stream) Sent() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.output == outputEnded
}

// Read reads a streamed body. It returns io.EOF after a complete one, otherwise an
// *Error: os.ErrDeadlineExceeded after ReadTimeout, with which the stream is reset. It may
// be called concurrently with Close.
func (s *Stream) Read(p []byte) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.unlock()
	for len(p) > 0 {
		switch {
		case s.taken < len(s.inbox):
			s.due = 0
			return s.take(p), nil
		case s.state != streamOpen && s.err == nil:
			return 0, io.EOF
		case s.state != streamOpen:
			return 0, s.err
		case s.due == 0 && s.ReadTimeout > 0:
			s.due = clock.Later(clock.Nanos(), s.ReadTimeout)
			c.setDue(s.due)
		}
		c.await(&s.receiver)
	}
	return 0, nil
}

// take copies what has come to p, and returns its credit.
func (s *Stream) take(p []byte) int {
	c := s.conn
	n := copy(p, s.inbox[s.taken:])
	s.taken += n
	if s.taken >= len(s.inbox)/2 { // a byte moves at most twice
		s.inbox, s.taken = s.inbox[:copy(s.inbox, s.inbox[s.taken:])], 0
	}
	if s.state == streamOpen {
		c.consumedOf(s, n, clock.Nanos())
		c.flush(&s.receiver)
	}
	return n
}

// Close ends a streamed body. If it is not complete, or the request was not sent
// completely, the stream is reset. It must be called for every streamed body; only the
// first call has an effect.
func (s *Stream) Close() error {
	c := s.conn
	if c == nil { // Do has not opened it
		return nil
	}
	c.mu.Lock()
	defer c.unlock()
	s.dropInbox()
	if s.state == streamOpen {
		c.cancel(s, ErrClosed)
		c.flush(nil)
	}
	s.join()
	return nil
}

// ID returns the number of the stream, after Do; 0: none was opened.
func (s *Stream) ID() uint32 { return s.id }
