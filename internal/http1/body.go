package sluice

import (
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/h1"
)

// The server drains the unread rest of a streamed body only within these
// limits. Beyond them, opening another connection is cheaper.
const (
	drainLimit   = 256 << 10
	drainTimeout = 50 * time.Millisecond
)

// rawHead returns the bytes of the head that have arrived.
func (x *http1Exchange) rawHead() []byte { return x.ctx.Request.Header.m.Table.Raw() }

// bodyLength returns the length of the body that the head announces, 0 for none,
// -1 for a chunked one.
func (x *http1Exchange) bodyLength() int64 {
	if x.parser.Has(h1.ChunkedBody) {
		return -1
	}
	return x.parser.ContentLength
}

// isComplete reports whether the verified end of the body was reached.
func (x *http1Exchange) isComplete() bool {
	if x.parser.Has(h1.ChunkedBody) {
		return x.trailerIsRead
	}
	return x.bodyLeft == 0
}

// ReadBody implements serverExchange. It returns buffered data, or waits for some.
func (x *http1Exchange) ReadBody(p []byte) (n int, err error) {
	x.conn.conn.SetReadDeadline(x.ctx.start, x.ctx.readTimeout)
	if x.parser.Has(h1.ChunkedBody) {
		n, err = x.readChunked(p)
	} else {
		n, err = x.readLength(p)
	}
	if err == io.EOF && !x.isComplete() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (x *http1Exchange) readLength(p []byte) (int, error) {
	if int64(len(p)) > x.bodyLeft {
		p = p[:x.bodyLeft]
	}
	if len(x.conn.conn.Buffered()) == 0 {
		if err := x.ctx.requestStream.mayWait(); err != nil {
			return 0, err
		}
	}
	n, err := x.conn.conn.Read(p)
	x.countRead(n)
	x.bodyLeft -= int64(n)
	if x.bodyLeft == 0 {
		return n, io.EOF
	}
	return n, err
}

func (x *http1Exchange) readChunked(p []byte) (int, error) {
	conn := x.conn.conn
	for {
		in := conn.Buffered()
		if len(in) == 0 {
			if err := x.ctx.requestStream.mayWait(); err != nil {
				return 0, err
			}
			if err := conn.Fill(); err != nil {
				return 0, err
			}
			continue
		}
		if !x.chunks.Done() {
			used, err := x.chunks.Advance(in)
			x.consume(used)
			if err != nil {
				return 0, err
			}
			if x.chunks.Done() {
				x.beginTrailer()
			}
			if in = in[used:]; len(in) == 0 {
				continue
			}
		}
		if !x.chunks.Done() { // p may not hold all the data
			in = in[:min(len(in), len(p))]
		}
		used, data, done, err := x.nextChunked(in)
		n := copy(p, data)
		x.consume(used)
		switch {
		case err != nil:
			return n, err
		case done:
			return n, io.EOF
		case n > 0:
			return n, nil
		}
	}
}

// discard consumes input as a part of the body without returning it. done says
// that the verified end was reached.
func (x *http1Exchange) discard(in []byte) (used int, done bool, err error) {
	if !x.parser.Has(h1.ChunkedBody) {
		used = int(min(int64(len(in)), x.bodyLeft))
		x.bodyLeft -= int64(used)
		done = x.bodyLeft == 0
	} else {
		for used < len(in) && !done && err == nil {
			var n int
			n, _, done, err = x.nextChunked(in[used:])
			used += n
		}
	}
	x.drained += int64(used)
	if !done && err == nil && x.drained > drainLimit {
		err = ErrBodyTooLarge
	}
	if done {
		x.ctx.requestStream.err = io.EOF
	}
	return used, done, err
}

// mayDrain reports whether the rest of the body should be drained.
func (x *http1Exchange) mayDrain() bool {
	if s := &x.ctx.requestStream; s.err != nil || s.awaitsContinue { // the end may never arrive
		return false
	}
	return x.parser.Has(h1.ChunkedBody) || x.bodyLeft <= drainLimit
}

// beginDrain prepares for discard.
func (x *http1Exchange) beginDrain() {
	x.drained = 0
	x.conn.conn.SetReadDeadline(clock.Nanos(), drainTimeout)
}

// drainNow reads and discards the rest of the body, within the limits. It
// reports whether it reached the end.
func (x *http1Exchange) drainNow() bool {
	if !x.mayDrain() {
		return false
	}
	x.beginDrain()
	conn := x.conn.conn
	for {
		if len(conn.Buffered()) == 0 && conn.Fill() != nil {
			return false
		}
		used, done, err := x.discard(conn.Buffered())
		x.consume(used)
		if done || err != nil {
			return done
		}
	}
}

// nextChunked consumes input of a chunked body and its trailer section. data is
// a part of in; done says that the verified end was reached.
func (x *http1Exchange) nextChunked(in []byte) (used int, data []byte, done bool, err error) {
	if !x.chunks.Done() {
		used, data, err = x.chunks.Next(in)
		if x.chunks.Done() {
			x.beginTrailer()
		}
		return used, data, false, err
	}
	used, done, err = x.parseTrailer(in)
	return used, nil, done, err
}

// beginTrailer prepares for the trailer section of the request.
func (x *http1Exchange) beginTrailer() {
	keep := x.parser.Head
	x.parser.ResetTrailer()
	x.parser.Head = keep
	x.trailer.Reset()
}

// parseTrailer consumes input of the trailer section. It drops fields that a
// trailer section must not contain.
func (x *http1Exchange) parseTrailer(in []byte) (used int, done bool, err error) {
	used, done, err = x.parser.Parse(&x.trailer, in)
	if done && err == nil {
		x.trailerIsRead = true
		if x.trailer.Len() > 0 {
			h1.DropForbiddenTrailers(&x.trailer)
			x.ctx.Request.Header.m.ReceiveTrailers(&x.trailer)
		}
	}
	return used, done, err
}

// consume uses n bytes of the input that the engine holds.
func (x *http1Exchange) consume(n int) {
	x.countRead(n)
	x.conn.conn.Discard(n)
}
