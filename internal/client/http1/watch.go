package http1

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A separate goroutine writes a large request while the caller's goroutine waits
// for the response: a server may refuse the request long before its end, or
// answer while it reads. So it does with a body that the server shall ask for. The
// separate goroutine ends before the call returns.

const (
	// refusalTime is how long the client reads from a broken connection, for an
	// answer that arrived before.
	refusalTime = time.Second
	// refusalGrace is how long writing continues after the answer has arrived. A
	// server that reads the rest of a body then need not reset the connection.
	refusalGrace = 100 * time.Millisecond

	statusContinue           = 100
	statusSwitchingProtocols = 101
)

// watch is the state that the two goroutines of a large request share.
type watch struct {
	mu         sync.Mutex
	isAnswered bool      // the response has begun; its reader now sets the read deadline
	source     io.Closer // the body stream; nil: it has no Close
}

// runWatching sends the request and reads the response concurrently.
func (x *Exchange) runWatching(bw *bufio.Writer) error {
	c := x.Conn
	if err := c.setWriteLimit(x.Bounds, x.WriteTimeout); err != nil {
		return err
	}
	if err := c.setReadLimit(x.Bounds, 0); err != nil {
		return err
	}
	c.NoteDeadline() // both goroutines set deadlines
	written := make(chan error, 1)
	w := &watch{source: x.Upload}
	go func() { written <- x.writeAside(bw, w) }()

	status, err := x.awaitStatus()
	if x.Gate != nil {
		x.Gate.Close()
	}
	if err != nil {
		writeErr, isCut := w.join(x, written, 0)
		switch {
		case isCut, errors.Is(writeErr, body.ErrWithheld):
			writeErr = nil // it was caused here
		case writeErr == nil:
			x.isSent = true
		}
		return x.unanswered(err, writeErr)
	}
	w.answered()
	if status >= 3 {
		x.endWriting()
	}
	_ = c.Net.SetReadDeadline(time.Time{}) // clears the writer's; a failure shows when reading
	c.interruptFor(x.Bounds)
	patience := refusalTime
	if err = x.receive(); err != nil || status >= 3 {
		patience = 0 // the rest of the request is useless
	}
	writeErr, _ := w.join(x, written, patience)
	if x.isCut = writeErr != nil; errors.Is(writeErr, body.ErrWithheld) {
		writeErr = nil
	}
	x.wrote(writeErr)
	if x.isCut && err == nil {
		c.closeWrite() // the server must not wait for the rest before it continues
	}
	return err
}

// AwaitContinue waits until Gate is open, patience at most. The error is body.ErrWithheld if
// the body must not be sent. WriteTimeout limits the body from then on.
func (x *Exchange) AwaitContinue(patience time.Duration) error {
	if err := x.Gate.Wait(patience); err != nil {
		return err
	}
	if limit := x.Bounds.Limit(x.WriteTimeout); limit != 0 {
		_ = x.Conn.Net.SetWriteDeadline(clock.Deadline(limit)) // a failure shows when writing
		x.Conn.interruptFor(x.Bounds)
	}
	return nil
}

// join waits for the writing to end, after the response was read or has failed.
// Writing continues while the server accepts bytes within each patience. Then
// join interrupts it: with a write deadline, and by closing the body stream,
// since that may be waiting for its source.
func (w *watch) join(x *Exchange, written <-chan error, patience time.Duration) (err error, isCut bool) {
	for last := x.Conn.written.Load(); ; {
		select {
		case err = <-written:
			return err, false
		default: // writing that has ended is not interrupted
		}
		timer := clock.AcquireTimer(x.Bounds.Left(max(patience, refusalGrace)))
		select {
		case err = <-written:
			clock.ReleaseTimer(timer)
			return err, false
		case <-timer.C:
		case <-x.Bounds.Done():
			patience = 0
		}
		clock.ReleaseTimer(timer)
		if now := x.Conn.written.Load(); patience > 0 && now != last && x.Bounds.Err() == nil {
			last = now
			continue
		}
		_ = x.Conn.Net.SetWriteDeadline(clock.Past())
		if w.source != nil {
			_ = w.source.Close()
		}
		err = <-written
		return err, err != nil // nil: it ended before the interruption
	}
}

// unanswered returns the error of a request without a response. err is the
// error of waiting for the response.
func (x *Exchange) unanswered(err, writeErr error) error {
	x.wrote(writeErr)
	if writeErr != nil {
		return writeErr
	}
	if err == io.EOF { // reading returns it again, unless the writer's deadline comes first
		_ = x.Conn.Net.SetReadDeadline(time.Time{})
		x.Conn.interruptFor(x.Bounds)
	}
	if x.br.Buffered() > 0 || err == io.EOF {
		return x.Message.Receive(&x.br.Reader, &x.br.last) // returns what is wrong with the response
	}
	return x.Message.Unanswered(err)
}

// endWriting limits the writing of the request to refusalGrace from now.
func (x *Exchange) endWriting() {
	_ = x.Conn.Net.SetWriteDeadline(clock.Deadline(clock.Nanos() + int64(refusalGrace)))
	x.Conn.interruptFor(x.Bounds)
}

// answered makes the writer leave the read deadline unchanged from now on.
func (w *watch) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isAnswered = true
}

// writeAside writes the request, and then limits the time to wait for the
// response.
func (x *Exchange) writeAside(bw *bufio.Writer, w *watch) error {
	err := x.write(bw)
	var limit int64
	switch {
	case err == nil:
		limit = x.Bounds.Limit(x.ReadTimeout)
	case x.Conn.writeErr == nil, clock.IsTimeout(err):
		// Either the body itself failed, or the time has run out. Do not wait for
		// an answer that has not arrived.
		limit = clock.Nanos() - 1
	default:
		limit = clock.Nanos() + int64(refusalTime)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if limit != 0 && !w.isAnswered {
		_ = x.Conn.Net.SetReadDeadline(clock.Deadline(limit)) // a failure shows when reading
	}
	x.Conn.interruptFor(x.Bounds)
	return err
}

// awaitStatus waits for the final response and returns the first digit of its
// status. The response stays in the buffer; interim ones are passed on as they come. The
// response's table is empty before and after.
func (x *Exchange) awaitStatus() (digit int, err error) {
	t, limits := x.Message.Heads()
	defer t.Reset()
	p := h1.HeadParser{Role: h1.Responses, Limits: limits}
	for at := 0; ; {
		if _, err := x.br.Peek(at + 1); err != nil {
			if at > 0 && err == bufio.ErrBufferFull {
				return 9, nil // reading the response returns an error
			}
			return 0, err
		}
		in, _ := x.br.Peek(x.br.Buffered()) // cannot fail: the bytes are buffered
		used, done, err := p.Parse(t, in[at:])
		at += used
		switch status := p.StatusCode; {
		case err != nil:
			return 9, nil // not HTTP: reading the response returns the error
		case status >= 200, status == statusSwitchingProtocols:
			return status / 100, nil
		case done:
			if status == statusContinue && x.Gate != nil {
				x.Gate.Continue()
			}
			p.Reset()
			t.Reset()
			at = 0
			if !x.Message.Interim(&x.br.Reader, &x.br.last) {
				return 1, nil
			}
		}
	}
}
