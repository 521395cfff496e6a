package sluice

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/h1"
)

// A large request is written by a goroutine of its own, while the caller's waits
// for the response: a server may refuse it long before its end, or answer while
// it reads. The goroutine has ended when the call returns.

const (
	// watchedBody is the size of a body from which on that is done.
	watchedBody = 64 << 10
	// refusalTime is how long a broken connection is read from for the answer
	// that may have come before.
	refusalTime = time.Second
	// refusalGrace is how long writing goes on when the answer is there: servers
	// that read the rest of a body spare themselves a reset.
	refusalGrace = 100 * time.Millisecond
)

// watch is what the two goroutines of a large request share.
type watch struct {
	mu         sync.Mutex
	isAnswered bool      // the response has begun: its reader sets the deadlines
	source     io.Closer // the body stream; nil: it cannot be closed
}

// runWatching sends the request and reads the response at the same time.
func (x *exchange) runWatching(bw *bufio.Writer) error {
	x.call.phase = PhaseWrite
	if err := x.cc.setWriteLimit(x.call, x.c.WriteTimeout); err != nil {
		return err
	}
	if err := x.cc.setReadLimit(x.call, 0); err != nil {
		return err
	}
	x.cc.hasDeadline = true // both sides set some
	written := make(chan error, 1)
	w := &watch{}
	w.source, _ = x.req.stream.(io.Closer)
	go func() { written <- x.writeAside(bw, w) }()

	status, err := x.awaitStatus()
	if err != nil {
		x.endWriting()
		writeErr, isCut := w.join(x, written, 0)
		switch {
		case isCut:
			writeErr = nil // that was us
		case writeErr == nil:
			x.call.phase = PhaseRead
		}
		return x.unanswered(err, writeErr)
	}
	w.answered()
	if status >= 3 {
		x.endWriting()
	}
	_ = x.cc.c.SetReadDeadline(time.Time{}) // the writer's; reading tells if it fails
	x.cc.interruptFor(x.call)
	patience := refusalTime
	switch err = x.receive(); {
	case err != nil:
		x.endWriting() // nobody reads what is still to be written
		patience = 0
	case status >= 3:
		patience = 0
	}
	writeErr, _ := w.join(x, written, patience)
	x.wrote(writeErr)
	if x.isCut = writeErr != nil; x.isCut && err == nil {
		// The server must not wait for the rest before it goes on.
		if half, ok := x.cc.c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	return err
}

// join waits for the writing to end when the response is there, or none comes.
// It goes on as long as the server takes something within each patience, and is
// then cut: also by closing the body stream, which may wait for its own source.
func (w *watch) join(x *exchange, written <-chan error, patience time.Duration) (err error, isCut bool) {
	for last := x.cc.written.Load(); ; {
		select {
		case err = <-written:
			return err, false
		default: // what has ended has not been cut
		}
		timer := AcquireTimer(x.call.left(max(patience, refusalGrace)))
		select {
		case err = <-written:
			ReleaseTimer(timer)
			return err, false
		case <-timer.C:
		case <-x.call.done():
			patience = 0
		}
		ReleaseTimer(timer)
		if now := x.cc.written.Load(); patience > 0 && now != last && x.call.err() == nil {
			last = now
			continue
		}
		_ = x.cc.c.SetWriteDeadline(longAgo())
		if w.source != nil {
			_ = w.source.Close()
		}
		err = <-written
		return err, err != nil // it may have ended by itself
	}
}

// unanswered returns the error of a request without a response. err is that of
// waiting for one.
func (x *exchange) unanswered(err, writeErr error) error {
	x.wrote(writeErr)
	if writeErr != nil {
		return writeErr
	}
	if x.br.Buffered() > 0 || err == io.EOF {
		return x.readResponse() // what is wrong with it
	}
	return startError(ErrNothingRead{cause: err}, io.EOF)
}

// endWriting gives the writing of the request a last moment.
func (x *exchange) endWriting() {
	_ = x.cc.c.SetWriteDeadline(clock.Deadline(clock.Nanos() + int64(refusalGrace)))
	x.cc.interruptFor(x.call)
}

// answered tells the writer that the deadline for reading is not its any more.
func (w *watch) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isAnswered = true
}

// writeAside writes the request, and then bounds the waiting for the response.
func (x *exchange) writeAside(bw *bufio.Writer, w *watch) error {
	err := x.write(bw)
	var limit int64
	switch {
	case err == nil:
		limit = x.call.limit(x.c.ReadTimeout)
	case x.cc.writeErr == nil, isDeadline(err):
		// The body's own fault, or there is no more time: an answer that is not
		// there by now is not waited for.
		limit = clock.Nanos() - 1
	default:
		limit = clock.Nanos() + int64(refusalTime)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if limit != 0 && !w.isAnswered {
		_ = x.cc.c.SetReadDeadline(clock.Deadline(limit)) // reading tells
	}
	x.cc.interruptFor(x.call)
	return err
}

// awaitStatus waits for the final response, which stays in the buffer, and
// returns the first digit of its status. The response's table is empty before and
// after.
func (x *exchange) awaitStatus() (digit int, err error) {
	t := &x.resp.Header.table
	defer t.Reset()
	p := h1.HeadParser{Role: h1.Responses, Limits: x.c.headLimits()}
	for at := 0; ; {
		if _, err := x.br.Peek(at + 1); err != nil {
			if at > 0 && err == bufio.ErrBufferFull {
				return 1, nil // more interim responses than are looked at
			}
			return 0, err
		}
		in, _ := x.br.Peek(x.br.Buffered()) // it is there
		used, done, err := p.Parse(t, in[at:])
		at += used
		switch status := p.StatusCode; {
		case err != nil:
			return 9, nil // no HTTP: reading tells
		case status >= 200, status == StatusSwitchingProtocols:
			return status / 100, nil
		case done:
			p.Reset()
			t.Reset()
		}
	}
}
