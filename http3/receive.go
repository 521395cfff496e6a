package http3

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// errReset says that the request cannot be answered: its stream was reset, or its connection
// has ended.
var errReset = errors.New("sluice: the stream was reset")

// errInterrupted is what a reader gets that outlives its request.
var errInterrupted = errors.New("sluice: request body stream used after its request ended")

// read reads from the stream, for which it may wait. It returns io.EOF and a deadline only
// without a byte.
func (s *stream) read(p []byte) (int, error) {
	if s.input != inputOpen {
		return 0, s.inputEnd()
	}
	if !s.isTunnel { // it has no worker
		s.conn.workers.Exempt(1)
	}
	n, err := s.quic.Read(p)
	if !s.isTunnel {
		s.conn.workers.Exempt(-1)
	}
	s.bytesRead += n
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		s.input = inputEnded
		if n > 0 {
			err = nil
		}
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		if n > 0 { // it was over between two frames of QUIC
			return n, nil
		}
		return 0, os.ErrDeadlineExceeded
	}
	s.input = inputLost
	if isPeerReset(err) {
		s.charge(costReset)
		s.watch.gone()
	}
	return n, errReset
}

// inputEnd returns the error of a read after the last one.
func (s *stream) inputEnd() error {
	if s.input == inputEnded {
		return io.EOF
	}
	return errReset
}

// fill reads more input into s.scratch, which has none.
func (s *stream) fill() error {
	if s.scratch == nil {
		s.scratch = scratchPool.Get().(*scratch)
	}
	n, err := s.read(s.scratch.in[:])
	s.from, s.to = 0, n
	return err
}

// unread returns the input of s.scratch.
func (s *stream) unread() []byte {
	if s.scratch == nil {
		return nil
	}
	return s.scratch.in[s.from:s.to]
}

// violated ends the stream or the connection, and returns errReset.
func (s *stream) violated(err *h3.Error) error {
	s.input = inputLost
	if err.Scope == h3.ConnectionScope {
		s.conn.fail(err)
		return errReset
	}
	s.reset(err.Code)
	s.charge(costMalformed)
	return errReset
}

// readHead reads until the section of the head has arrived, and returns it. It is valid until
// dropSection and the next fill. isTooLong: it is longer than max, and was not read.
func (s *stream) readHead(max int) (section []byte, isTooLong bool, err error) {
	for {
		in := s.unread()
		if s.part == partNone && len(in) > 0 {
			used, isWhole := s.frames.ReadHeader(in)
			s.from += used
			if !isWhole {
				continue
			}
			in = s.unread()
			if err := s.beginFrame(); err != nil {
				return nil, false, err
			}
			if s.part == partSection && s.frames.Left > uint64(max) {
				return nil, true, nil
			}
		}
		if s.part != partNone {
			isFirst := s.section == nil
			piece, isEnd := s.frames.Take(in)
			s.from += len(piece)
			part := s.part
			if isEnd {
				s.part = partNone
			}
			switch {
			case part == partSkipped:
			case isEnd && isFirst:
				return piece, false, nil
			default:
				if err := s.keepSection(piece); err != nil {
					return nil, false, err
				}
				if isEnd {
					return s.section, false, nil
				}
			}
			if len(s.unread()) > 0 {
				continue
			}
		}
		switch err := s.fill(); err {
		case nil:
		case io.EOF:
			return nil, false, s.endInput()
		default:
			return nil, false, err
		}
	}
}

// keepSection keeps the next piece of a section. Its memory grows with what arrives: clients
// announce long sections on all streams for nothing.
func (s *stream) keepSection(piece []byte) error {
	if err := s.keep(len(piece)); err != nil {
		return err
	}
	if s.room == nil {
		s.room = buf.Get(min(len(piece)+int(s.frames.Left), max(len(piece), inputSize)))
		s.section = s.room.B[:0]
	}
	s.section = append(s.section, piece...)
	s.room.B = s.section
	return nil
}

// maxHeads is how many bytes the heads and trailer sections of all open requests of a connection
// may have, as with HTTP/2. One request may have as many as the limits of heads allow.
const maxHeads = 1 << 20

// keep counts n bytes of the head or the trailer section. If there are too many, it resets the
// stream, and returns errReset.
func (s *stream) keep(n int) error {
	if s.hold(n) {
		return nil
	}
	code := h3.RequestRejected
	if s.isStream { // a handler has begun
		code = h3.ExcessiveLoad
	}
	s.input = inputLost
	s.reset(code)
	s.charge(costRefused)
	return errReset
}

// hold adds n to what the connection counts for s, and reports whether that is admitted.
func (s *stream) hold(n int) bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	s.head += n
	c.heads += n
	return c.heads <= maxHeads || c.open == 1
}

// letGo ends what hold has counted.
func (s *stream) letGo() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads, s.head = c.heads-s.head, 0
}

// keepFields counts t in the place of the section that it was decoded from.
func (s *stream) keepFields(t *field.Table) error {
	const fieldSize = 32 // about what a field needs beside its bytes
	return s.keep(len(t.Raw()) + fieldSize*t.Len() - len(s.section))
}

// beginFrame admits the frame whose header was read.
func (s *stream) beginFrame() error {
	isKnown, violation := s.message.Admit(s.frames.Type)
	switch {
	case violation != nil:
		return s.violated(violation)
	case !isKnown:
		s.part = partSkipped
		s.charge(costIgnored + int(min(s.frames.Left/skippedPerToken, budgetSize)))
	case s.frames.Type == h3.FrameHeaders:
		s.part = partSection
	default:
		s.part = partData
		if s.frames.Left == 0 || s.frames.Left < tinyData && !s.isStream && !s.isTunnel {
			s.charge(costTinyData)
		}
	}
	return nil
}

// endInput checks that the stream may end here. It returns io.EOF if so.
func (s *stream) endInput() error {
	if !s.frames.IsBetween() {
		return s.violated(h3.ErrFrameLength)
	}
	if violation := s.message.End(); violation != nil {
		return s.violated(violation)
	}
	if s.declared >= 0 && s.received != s.declared {
		return s.violated(h3.ErrBodyLength)
	}
	return io.EOF
}

// readBody reads a part of the body. mayWait is called before each wait. It returns io.EOF at
// the verified end, errReset, os.ErrDeadlineExceeded, or an error of mayWait.
func (s *stream) readBody(p []byte, mayWait func() error) (n int, err error) {
	for n == 0 && len(p) > 0 {
		if s.scratch != nil {
			var used int
			n, used, err = s.parse(p, s.unread())
			if s.from += used; s.from == s.to {
				scratchPool.Put(s.scratch)
				s.scratch = nil
			}
			if err != nil || n > 0 {
				return n, err
			}
			continue
		}
		if s.interrupted.Load() {
			return 0, errInterrupted
		}
		if err := mayWait(); err != nil {
			return 0, err
		}
		s.expect(waitBody, s.bodyDue())
		m, err := s.read(p)
		s.wait.Store(0)
		if err == io.EOF {
			err = s.endInput()
		}
		if s.interrupted.Load() {
			err = errInterrupted
		}
		if err != nil {
			return 0, err
		}
		if n, _, err = s.parse(p, p[:m]); err != nil {
			return n, err
		}
	}
	return n, nil
}

// bodyDue returns when a body is late of which nothing arrives, in Nanos; 0: never.
func (s *stream) bodyDue() int64 {
	switch {
	case s.keptDue != 0:
		return s.keptDue
	case s.readDue.Load(), s.isTunnel:
		return 0
	}
	return clock.Nanos() + int64(s.conn.serving.readTimeout)
}

// parse moves the content of in to dst, which may begin where in begins. It stops when dst is
// full.
func (s *stream) parse(dst, in []byte) (n, used int, err error) {
	for used < len(in) && n < len(dst) {
		if s.part == partNone {
			k, isWhole := s.frames.ReadHeader(in[used:])
			if used += k; !isWhole {
				break
			}
			if err := s.beginFrame(); err != nil {
				return n, used, err
			}
			if s.part == partSection && s.frames.Left > uint64(s.conn.serving.cfg.Limits.MaxHead) {
				return n, used, s.malformed()
			}
		}
		rest := in[used:]
		if s.part == partData {
			rest = rest[:min(len(rest), len(dst)-n)]
		}
		piece, isEnd := s.frames.Take(rest)
		used += len(piece)
		switch s.part {
		case partData:
			n += copy(dst[n:], piece)
			s.received += int64(len(piece))
			if s.declared >= 0 && s.received > s.declared {
				return 0, used, s.violated(h3.ErrBodyLength)
			}
		case partSection:
			if err := s.keepSection(piece); err != nil {
				return n, used, err
			}
			if isEnd {
				if err := s.readTrailer(); err != nil {
					return n, used, err
				}
			}
		}
		if isEnd {
			s.part = partNone
		}
	}
	return n, used, nil
}

// malformed ends a message whose trailer section exceeds a limit.
func (s *stream) malformed() error {
	s.reset(h3.MessageError)
	s.charge(costMalformed)
	s.input = inputLost
	return errReset
}

// readTrailer reads the trailer section, which is complete.
func (s *stream) readTrailer() error {
	w := scratchPool.Get().(*scratch)
	defer scratchPool.Put(w)
	s.trailer = &field.Table{}
	w.decoder.Limits, w.decoder.AcceptsConnect = s.conn.serving.cfg.Limits, false
	err := w.decoder.Decode(s.section, fieldlist.Trailer, s.trailer, nil)
	keepErr := s.keepFields(s.trailer)
	s.dropSection()
	if keepErr != nil {
		s.trailer = nil
		return keepErr
	}
	if err != nil {
		s.trailer = nil
		if violation := h3.Violation(err); violation != nil {
			return s.violated(violation)
		}
		return s.malformed()
	}
	s.message.TrailerReceived()
	h1.DropForbiddenTrailers(s.trailer)
	return nil
}

// setReadDeadline bounds waits for the body: now+timeout; 0 means for ever.
func (s *stream) setReadDeadline(at time.Time) {
	if !s.interrupted.Load() {
		s.readDue.Store(!at.IsZero())
		_ = s.quic.SetReadDeadline(at)
	}
	if s.interrupted.Load() {
		s.interruptRead()
	}
}

// interruptRead makes readBody return. Any goroutine may call it.
func (s *stream) interruptRead() {
	s.interrupted.Store(true)
	_ = s.quic.SetReadDeadline(clock.Past())
}
