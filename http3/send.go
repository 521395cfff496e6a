package http3

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

const (
	// collected is how much of a response is collected for one write.
	collected = 4 << 10
	// withHead is how much of a larger part is sent together with the head: what fits into
	// its packet.
	withHead = 1100
	// pieceSize is how much of a file or of a kept body is read at a time.
	pieceSize = 32 << 10
)

// headerRoom is what a frame header of a field section has at most: its type, and 4 bytes of
// length.
const headerRoom = 5

// appendSection appends a HEADERS frame.
func appendSection(dst []byte, f streams.Fields) []byte {
	start := len(dst)
	dst = append(dst, byte(h3.FrameHeaders), 0, 0, 0, 0)
	e := encoderPool.Get().(*h3.Encoder)
	dst = f.AppendFields(e.Begin(dst), e)
	encoderPool.Put(e)
	length := len(dst) - start - headerRoom
	if length < 1<<14 {
		binary.BigEndian.PutUint16(dst[start+1:], uint16(length)|0x4000)
		return append(dst[:start+3], dst[start+headerRoom:]...)
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(length)|0x8000_0000)
	return dst
}

// room returns the memory in which the output of s is collected.
func (s *stream) output0() *buf.Buffer {
	if s.out == nil {
		s.out = buf.Get(collected + 512)
	}
	return s.out
}

// sendHead collects a head, and ends the response with isLast.
func (s *stream) sendHead(f streams.Fields, isInterim, isLast bool) bool {
	b := s.output0()
	b.B = appendSection(b.B, f)
	switch {
	case isInterim:
		return s.flush()
	case isLast:
		return s.finish()
	}
	s.output = outputOpen
	return len(b.B) <= collected || s.flush()
}

// respond sends a head and the whole content.
func (s *stream) respond(f streams.Fields, p []byte) bool {
	b := s.output0()
	b.B = appendSection(b.B, f)
	s.output = outputOpen
	return s.sendLast(p, nil)
}

// send sends or collects a part of the content.
func (s *stream) send(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	b := s.output0()
	if len(b.B)+len(p) > collected && len(b.B) > 0 && len(p) <= collected {
		if !s.flush() {
			return false
		}
		b = s.output0()
	}
	b.B = h3.AppendFrameHeader(b.B, h3.FrameData, uint64(len(p)))
	if len(b.B)+len(p) <= collected+16 {
		b.B = append(b.B, p...)
		return true
	}
	first := min(len(p), max(withHead-len(b.B), 0))
	b.B = append(b.B, p[:first]...)
	return s.flush() && s.write(p[first:])
}

// sendLast sends the last part of the content, and the trailer fields unless t is nil.
func (s *stream) sendLast(p []byte, t streams.Fields) bool {
	if !s.send(p) {
		return false
	}
	if t != nil {
		b := s.output0()
		b.B = appendSection(b.B, t)
	}
	return s.finish()
}

// finish sends what was collected, and ends the response.
func (s *stream) finish() bool {
	if !s.flush() {
		return false
	}
	s.endOutput()
	return true
}

// endOutput ends the direction to the client.
func (s *stream) endOutput() {
	s.watch.end()
	s.output = outputEnded
	_ = s.quic.Close()
}

// flush sends what was collected.
func (s *stream) flush() bool {
	if s.out == nil {
		return s.output != outputReset && s.quic.Context().Err() == nil // the client has not stopped it
	}
	ok := s.write(s.out.B)
	s.dropOutput()
	return ok
}

// write writes p, for which it may wait for the client.
func (s *stream) write(p []byte) bool {
	for len(p) > 0 {
		if s.output == outputReset {
			return false
		}
		if len(p) < 2*collected {
			switch err := s.quic.TryWriteAll(p); {
			case err == nil:
				s.bytesWritten += len(p)
				return true
			case !errors.Is(err, quic.ErrWouldBlock):
				return s.failWrite(err)
			}
		}
		piece := p
		if s.inOrder < inOrderSize {
			piece = p[:min(len(p), inOrderSize-s.inOrder)]
		}
		p = p[len(piece):]
		if len(piece) > 2*collected {
			s.takeTurns(len(piece))
		}
		if s.writeTimeout > 0 {
			_ = s.quic.SetWriteDeadline(time.Now().Add(s.writeTimeout))
		} else {
			s.expect(waitWrite, clock.Nanos()+int64(s.stall))
		}
		if s.limiter == nil {
			s.limiter = s.progressed
		}
		n, err := s.quic.WriteWithLimit(piece, s.limiter)
		s.wait.Store(0)
		s.bytesWritten += n
		if err != nil {
			return s.failWrite(err)
		}
	}
	return true
}

// progressed is called when the client takes up to n bytes more, and returns n. Any goroutine
// may call it.
func (s *stream) progressed(n int) int {
	s.taken.Store(clock.Nanos())
	return n
}

// failWrite notes why the response cannot be sent. It returns false.
func (s *stream) failWrite(err error) bool {
	s.output, s.writeErr = outputReset, err
	if isPeerReset(err) {
		s.charge(costReset)
	}
	return false
}
