// Package http1 is the client's end of an HTTP/1.1 connection (RFC 9112): one
// request and its response at a time, with their time limits, over any net.Conn. A large
// request is written while its response is awaited. It knows no request or response type:
// an Exchange has a Message, which writes and reads.
package http1

import (
	"bufio"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A Message is a request and the place of its response. An Exchange calls its methods
// from Run, Ended from the Stream.
type Message interface {
	// Write writes the request to bw. It is called if Exchange.Content is nil, for a
	// watched request on a goroutine that ends before Run returns.
	Write(bw *bufio.Writer) error
	// Heads returns an empty table for the heads that are parsed before Receive reads
	// them, which is empty again afterwards, and their limits.
	Heads() (*field.Table, h1.Limits)
	// Interim reads the interim response that br begins with, which is complete. The result false
	// means that only Receive reads what follows.
	Interim(br *bufio.Reader, last *h1.LastHead) bool
	// Receive reads the response from br. It sets IsLast and, for a body that is not
	// read, Body. The parser of heads may use last.
	Receive(br *bufio.Reader, last *h1.LastHead) error
	// Unanswered returns the error of a request when reading the first byte of its
	// response has failed with err.
	Unanswered(err error) error
	// Ended is called at the end of a Stream, when the Exchange is not used any more. See
	// Source.End of package body for err and the result. outcome is not Streamed.
	Ended(outcome Outcome, err error) error
}

// A Body is a body that was not read yet. IsComplete is that of package body.
type Body interface {
	io.Reader
	IsComplete() bool
}

// An Exchange is one request and its response on a Conn. The caller sets the exported
// fields and calls Run; unless the result is Streamed, it then owns the Exchange again and
// calls Clear before the Conn gets another request. Conn.Init sets Conn and Message.
type Exchange struct {
	Conn    *Conn
	Message Message
	Bounds  *clock.Bounds // of the call
	// Content is the whole request; nil: Message writes it, through a buffer of
	// WriteBuffer bytes.
	Content []byte
	// Upload is the body stream of the request, if it has a Close, which makes a waiting
	// Read return.
	Upload io.Closer
	// Gate keeps the body back until the status 100 comes; nil: it does not wait. Message
	// calls AwaitContinue between head and body. The request is watched.
	Gate *body.Gate
	// Wrote is called after the request was written, or writing it has failed; nil: none.
	Wrote func(err error)
	// WriteTimeout and ReadTimeout limit writing the request and reading the response;
	// for a Stream, ReadTimeout limits each Read. 0: no limit.
	WriteTimeout, ReadTimeout time.Duration
	ReadBuffer, WriteBuffer   int

	// Body is set by Receive; nil: the response was read. Length is that of Body, as
	// ContentLength returns it. Limit is how much of it Stream returns; 0: all.
	Body          Body
	Length, Limit int

	// IsWatched: the request is so long that the response may come before its end.
	IsWatched bool
	// IsLast: the Conn cannot be reused after the response. Receive may set it, too.
	IsLast bool
	// IsUnwanted is set by Receive if Body is dropped. Otherwise Stream has it.
	IsUnwanted bool
	isSent     bool
	isCut      bool // the request was not written completely

	br           *input
	guard        guard
	stream       *stream
	streamBounds clock.Bounds // of the Stream
}

// A Outcome says what happens to a Conn after a response.
type Outcome uint8

const (
	MustClose Outcome = iota // it must be closed
	MustCut                  // as MustClose, and the server may have stopped reading
	Reusable                 // it can be reused
	Streamed                 // Stream owns it
)

// Run sends the request and reads the response. It returns what happens to the
// Conn. After an error, that is MustCut.
func (x *Exchange) Run() (Outcome, error) {
	c := x.Conn
	if !c.takesTurn || !x.limitsRead() {
		if err := c.ClearLimits(); err != nil {
			return MustCut, x.limitError(err)
		}
	}
	if ctx := x.Bounds.Context; ctx != nil {
		x.guard = c.guard(ctx)
	}
	var err error
	if c.takesTurn {
		err = x.runTurn()
	} else {
		err = x.runCalls()
	}
	switch {
	case err != nil || x.Body == nil:
	case x.IsUnwanted:
		err = x.drop()
	default:
		if err = x.openStream(); err == nil {
			return Streamed, nil
		}
	}
	isOver := !x.guard.end(c)
	hasMore := false
	if x.br != nil { // something has arrived
		hasMore = x.br.Buffered() > 0
		releaseInput(x.br)
	}
	switch {
	case err != nil || isOver || x.isCut:
		return MustCut, err
	case hasMore || x.IsLast:
		return MustClose, nil
	}
	return Reusable, nil
}

// runCalls sends the request and reads the response, by calls of Write and Read.
func (x *Exchange) runCalls() error {
	x.br = acquireInput(x.Conn, x.ReadBuffer)
	if x.Content == nil {
		return x.runBuffered()
	}
	if err := x.send(nil); err != nil {
		return err
	}
	return x.receive()
}

// Clear forgets the request and its response.
func (x *Exchange) Clear() {
	x.Conn.hasTurned = false
	if x.Conn.written.Load() != 0 { // a Store costs more
		x.Conn.written.Store(0)
	}
	if x.Conn.writeErr != nil {
		x.Conn.writeErr = nil
	}
	x.Bounds, x.Content, x.Wrote, x.br, x.guard = nil, nil, nil, nil, guard{}
	x.Gate = nil
	x.IsWatched, x.IsLast, x.IsUnwanted, x.isSent, x.isCut = false, false, false, false, false
	if x.Body != nil || x.Upload != nil {
		x.Upload, x.Body, x.Limit, x.stream, x.streamBounds = nil, nil, 0, nil, clock.Bounds{}
	}
}

// IsSent reports whether the request was written: if Run has failed, then while it read
// the response.
func (x *Exchange) IsSent() bool { return x.isSent }

// runBuffered sends a request through a pooled buffer and reads the response.
func (x *Exchange) runBuffered() (err error) {
	bw := AcquireWriter(x.Conn, x.WriteBuffer)
	if x.IsWatched {
		err = x.runWatching(bw)
	} else if err = x.send(bw); err == nil {
		err = x.receive()
	}
	ReleaseWriter(bw)
	return err
}

// send writes the request. bw is nil for one that is in Content: it is written with
// one Write. Together with targets that are not escaped twice, this makes DoFastServer
// of the client benchmarks take 11 % less time.
func (x *Exchange) send(bw *bufio.Writer) error {
	if err := x.Conn.setWriteLimit(x.Bounds, x.WriteTimeout); err != nil {
		return err
	}
	var err error
	if bw == nil {
		_, err = x.Conn.Write(x.Content)
	} else {
		err = x.write(bw)
	}
	x.wrote(err)
	return err
}

// wrote calls Wrote after the request was written.
func (x *Exchange) wrote(err error) {
	if x.Wrote != nil {
		x.Wrote(err)
	}
}

// write writes the request to bw and flushes it.
func (x *Exchange) write(bw *bufio.Writer) error {
	if err := x.Message.Write(bw); err != nil {
		return err
	}
	return bw.Flush()
}

// receive reads the response.
func (x *Exchange) receive() error {
	x.isSent = true
	if err := x.Conn.setReadLimit(x.Bounds, x.ReadTimeout); err != nil {
		return err
	}
	// Wait here and not in the call that reads the head: after a switch of
	// goroutines, the processor mispredicts each return.
	if _, err := x.br.Peek(1); err != nil {
		return x.Message.Unanswered(err)
	}
	return x.Message.Receive(&x.br.Reader, &x.br.last)
}

const (
	// MaxDropped is how many bytes of an unwanted body are read, so that the
	// Conn can be reused.
	MaxDropped = 8 << 10
	// dropTime is the time limit for that.
	dropTime = time.Second
)

// drop ends Body, which is unwanted. It reads a short body to its end; after one that is
// longer, or has no length and may never end, the Conn is closed. A body that
// ends before its announced length is an error, as for a wanted body.
func (x *Exchange) drop() error {
	if x.Length < 0 || x.Length > MaxDropped {
		x.IsLast = true
		return nil
	}
	err := x.readAway()
	x.IsLast = x.IsLast || !x.Body.IsComplete()
	if clock.IsTimeout(err) || x.Bounds.HasEnded() {
		return nil // the response is complete except for the unwanted body
	}
	return err
}

// readAway reads a short body to its end, within dropTime and ReadTimeout.
func (x *Exchange) readAway() error {
	timeout := dropTime
	if x.ReadTimeout > 0 {
		timeout = min(timeout, x.ReadTimeout)
	}
	if err := x.Conn.setReadLimit(x.Bounds, timeout); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, io.LimitReader(x.Body, MaxDropped+1))
	return err
}

// openStream makes Body a stream that owns the Exchange.
func (x *Exchange) openStream() error {
	// The call ends here, and so does its deadline. Each Read sets one if there is a ReadTimeout.
	if x.ReadTimeout <= 0 {
		if err := x.Conn.ClearLimits(); err != nil {
			return err
		}
	}
	if x.Bounds.HasEnded() {
		return x.Bounds.Err()
	}
	x.streamBounds.Context = x.Bounds.Context
	x.Bounds, x.Content, x.Upload, x.Wrote = &x.streamBounds, nil, nil, nil
	x.stream = &stream{x: x}
	x.stream.Init(x.stream, x.Limit)
	return nil
}

// Stream returns the body of the response after Run has returned Streamed. At its end, it
// calls Message.Ended.
func (x *Exchange) Stream() *body.Stream { return &x.stream.Stream }
