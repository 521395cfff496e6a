package http3

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
const (
	streamControl = 0x0
	streamPush    = 0x1
	streamEncoder = 0x2
	streamDecoder = 0x3
)

// allCritical has the control stream and both QPACK streams.
const allCritical criticalSet = 1<<streamControl | 1<<streamEncoder | 1<<streamDecoder

// A criticalSet is the set of a peer's control and QPACK streams that are there.
type criticalSet uint8

// add adds a stream, which must not be there yet.
func (c *criticalSet) add(kind uint64) *h3.Error {
	if *c>>kind&1 != 0 {
		return h3.ErrCriticalAgain
	}
	*c |= 1 << kind
	return nil
}

// A uniOwner is a connection of a server or a client.
type uniOwner interface {
	// controlParser returns what parses the peer's control stream.
	controlParser() parser
	// openedOther says that a stream has a type that is not one of those in allCritical.
	openedOther(kind uint64) *h3.Error
	fail(err *h3.Error)
}

// A parser parses what a peer sends on a critical stream.
type parser interface{ parse(in []byte) *h3.Error }

// uniStreams are the unidirectional streams of a peer. One goroutine reads each. They are accepted
// until all critical ones are there; later ones stay unaccepted, without credit.
// The peer sends little on them, so they can rest: then there are no goroutines, and what has
// arrived is read after resume.
type uniStreams struct {
	quic  *quic.Conn
	owner uniOwner

	mu        sync.Mutex
	critical  criticalSet
	readers   []*uniReader       // of streams that have not ended
	endAccept context.CancelFunc // nil: no goroutine waits for streams
	isResting bool
}

// awaitAll accepts streams until all critical ones are there.
func (u *uniStreams) awaitAll() { u.acceptUntil(u.beginAccept()) }

// acceptUntil accepts streams until all critical ones are there, or ctx ends and none has arrived.
func (u *uniStreams) acceptUntil(ctx context.Context) {
	for !u.hasAll() {
		s, err := u.quic.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		if r := u.add(s); r != nil {
			go r.read()
		}
	}
}

// awaitFirst waits for the first stream, and reads it. The others are accepted if they
// are there already, and otherwise by acceptArrived.
func (u *uniStreams) awaitFirst() {
	s, err := u.quic.AcceptUniStream(u.beginAccept())
	if err != nil {
		return
	}
	r := u.add(s)
	u.acceptArrived()
	if r != nil {
		r.read()
	}
}

// beginAccept returns the context for those who wait for streams. A rest ends it.
func (u *uniStreams) beginAccept() context.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	if u.isResting {
		cancel()
		return ctx
	}
	u.endAccept = cancel
	return ctx
}

// acceptArrived accepts the streams that have arrived.
func (u *uniStreams) acceptArrived() {
	if u.hasAll() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it does not wait
	u.acceptUntil(ctx)
}

// hasAll reports whether all critical streams are there.
func (u *uniStreams) hasAll() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.critical == allCritical
}

// add adds a stream. It returns the reader that the caller is to run; nil: it rests.
func (u *uniStreams) add(s *quic.ReceiveStream) *uniReader {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := &uniReader{of: u, stream: s, isResting: u.isResting}
	u.readers = append(u.readers, r)
	if r.isResting {
		return nil
	}
	return r
}

// resume ends a rest.
func (u *uniStreams) resume() {
	u.mu.Lock()
	wasResting := u.isResting
	u.isResting = false
	if wasResting {
		for _, r := range u.readers {
			_ = r.stream.SetReadDeadline(time.Time{})
			r.startLocked()
		}
	}
	u.mu.Unlock()
	if wasResting {
		u.acceptArrived()
	}
}

// rest begins a rest. Goroutines that read or accept end soon.
func (u *uniStreams) rest() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isResting {
		return
	}
	u.isResting = true
	u.endAcceptLocked()
	for _, r := range u.readers {
		_ = r.stream.SetReadDeadline(clock.Past())
	}
}

func (u *uniStreams) endAcceptLocked() {
	if u.endAccept != nil {
		u.endAccept()
		u.endAccept = nil
	}
}

// A uniReader reads a stream.
type uniReader struct {
	of        *uniStreams
	stream    *quic.ReceiveStream
	isResting bool // no goroutine reads; of.mu guards it

	parser parser // nil: the type has not arrived
	have   int    // bytes of the type
	room   [64]byte
}

// startLocked has a goroutine read r if none does.
func (r *uniReader) startLocked() {
	if r.isResting {
		r.isResting = false
		go r.read()
	}
}

// read reads until the streams rest, or until this one is over.
func (r *uniReader) read() {
	for {
		n, err := r.stream.Read(r.room[r.have:])
		isOver := !r.received(n)
		isLate := errors.Is(err, os.ErrDeadlineExceeded) // a rest has begun
		if !isOver && err != nil && !isLate {
			isOver = true
			if r.parser != nil && (err == io.EOF || isPeerReset(err)) {
				r.of.owner.fail(h3.ErrCriticalClosed)
			}
		}
		if (isOver || isLate) && r.end(isOver) {
			return
		}
	}
}

// end reports whether no goroutine is to read r: it is over, or rests.
func (r *uniReader) end(isOver bool) bool {
	u := r.of
	u.mu.Lock()
	defer u.mu.Unlock()
	if isOver {
		u.readers = slices.DeleteFunc(u.readers, func(other *uniReader) bool { return other == r })
		return true
	}
	r.isResting = u.isResting
	return r.isResting
}

// received handles n bytes more. It returns false if nothing else is of use.
func (r *uniReader) received(n int) bool {
	in := r.room[:r.have+n]
	if r.parser == nil {
		kind, size := h3.ReadVarint(in)
		if size == 0 {
			r.have = len(in)
			return true
		}
		violation := r.begin(kind)
		if violation != nil {
			r.of.owner.fail(violation)
			return false
		}
		if r.parser == nil {
			r.stream.CancelRead(quic.StreamErrorCode(h3.StreamCreationError))
			return false
		}
		r.have, in = 0, in[size:]
	}
	if violation := r.parser.parse(in); violation != nil {
		r.of.owner.fail(violation)
		return false
	}
	return true
}

// begin sets the parser of a stream with this type. There is none if it has no meaning.
func (r *uniReader) begin(kind uint64) *h3.Error {
	u := r.of
	switch kind {
	case streamControl:
		r.parser = u.owner.controlParser()
	case streamEncoder:
		r.parser = encoderParser{}
	case streamDecoder:
		r.parser = &decoderParser{}
	default:
		return u.owner.openedOther(kind)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.critical.add(kind)
	if u.critical == allCritical {
		u.endAcceptLocked()
	}
	return err
}

// watchControl ends the connection when the peer stops our control stream, which it must not.
func watchControl(control *quic.SendStream, c uniOwner) {
	context.AfterFunc(control.Context(), func() {
		if isPeerReset(context.Cause(control.Context())) {
			c.fail(h3.ErrCriticalClosed)
		}
	})
}

// An encoderParser is that of an encoder stream: without a table it is empty, or sets the
// capacity to 0.
type encoderParser struct{}

func (encoderParser) parse(in []byte) *h3.Error {
	const setCapacityZero = 0x20 // RFC 9204 section 4.3.1
	for _, c := range in {
		if c != setCapacityZero {
			return h3.ErrEncoderStream
		}
	}
	return nil
}

// A decoderParser is that of a decoder stream.
type decoderParser struct{ stream h3.DecoderStream }

func (d *decoderParser) parse(in []byte) *h3.Error { return d.stream.Check(in) }
