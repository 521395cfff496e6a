package http1

import (
	"errors"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// The server drains the unread rest of a streamed body only within these
// limits. Beyond them, opening another connection is cheaper.
const (
	drainLimit   = 256 << 10
	drainTimeout = 50 * time.Millisecond
)

// rawHead returns the bytes of the head that have arrived.
func (x *Exchange) rawHead() []byte { return x.requestHeader.Table.Raw() }

// bodyLength returns the length of the body that the head announces, 0 for none,
// -1 for a chunked one.
func (x *Exchange) bodyLength() int64 {
	if x.parser.Has(h1.ChunkedBody) {
		return -1
	}
	return x.parser.ContentLength
}

// isComplete reports whether the verified end of the body was reached.
func (x *Exchange) isComplete() bool { return x.bodyLeft == 0 }

// keepChunk gives data of a chunk to the Request. The server does not wait for the
// rest of a chunk that will be too large.
func (x *Exchange) keepChunk(data []byte) error {
	more, isData := x.chunks.InData()
	if !isData {
		more = 0
	}
	x.kept += len(data)
	return x.request.BodyReceived(data, more)
}

// ReadBody implements server.Exchange. It returns buffered data, or waits for some.
func (x *Exchange) ReadBody(p []byte) (n int, err error) {
	if x.isComplete() { // the server has read the rest
		return 0, io.EOF
	}
	x.conn.conn.SetReadDeadline(x.request.ReadLimit())
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

func (x *Exchange) readLength(p []byte) (int, error) {
	if int64(len(p)) > x.bodyLeft {
		p = p[:x.bodyLeft]
	}
	if len(x.conn.conn.Buffered()) == 0 {
		if err := x.request.MayWait(); err != nil {
			return 0, err
		}
	}
	n, err := x.conn.conn.Read(p)
	server.Add(x.cfg.Meter.BytesRead, n)
	x.bodyLeft -= int64(n)
	if x.bodyLeft == 0 {
		return n, io.EOF
	}
	return n, err
}

func (x *Exchange) readChunked(p []byte) (int, error) {
	conn := x.conn.conn
	for {
		in := conn.Buffered()
		if len(in) == 0 {
			if err := x.request.MayWait(); err != nil {
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
func (x *Exchange) discard(in []byte) (used int, done bool, err error) {
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
		err = errNotDrained
	}
	if done {
		x.input = inputKept
	}
	return used, done, err
}

var errNotDrained = errors.New("http1: the rest of a body is too large")

// unread returns what of a streamed body was not read, and why reading it has failed.
func (x *Exchange) unread() (server.BodyState, error) {
	if x.input != inputStreamed {
		return server.BodyRead, nil
	}
	return x.request.Unread()
}

// mayDrain reports whether the rest of the body should be drained. Otherwise its end may
// never arrive.
func (x *Exchange) mayDrain(left server.BodyState, err error) bool {
	return err == nil && left == server.BodyUnread && x.bodyLeft <= drainLimit
}

// beginDrain prepares for discard.
func (x *Exchange) beginDrain() {
	x.drained = 0
	x.conn.conn.SetReadDeadline(clock.Nanos(), drainTimeout)
}

// drainNow reads and discards the rest of the body, within the limits. It
// reports whether it reached the end.
func (x *Exchange) drainNow() bool {
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
func (x *Exchange) nextChunked(in []byte) (used int, data []byte, done bool, err error) {
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
func (x *Exchange) beginTrailer() {
	keep := x.parser.Head
	x.parser.ResetTrailer()
	x.parser.Head = keep
	x.trailer.Reset()
}

// parseTrailer consumes input of the trailer section. It drops fields that a
// trailer section must not contain.
func (x *Exchange) parseTrailer(in []byte) (used int, done bool, err error) {
	used, done, err = x.parser.Parse(&x.trailer, in)
	if done && err == nil {
		x.bodyLeft = 0
		if x.trailer.Len() > 0 {
			h1.DropForbiddenTrailers(&x.trailer)
			x.requestHeader.ReceiveTrailers(&x.trailer)
		}
	}
	return used, done, err
}

// consume uses n bytes of the input that the engine holds.
func (x *Exchange) consume(n int) {
	server.Add(x.cfg.Meter.BytesRead, n)
	x.conn.conn.Discard(n)
}
