package http3

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// response is the part of a clientStream that receives. One goroutine uses it: that of Do, then
// that of Read.
type response struct {
	frames   h3.FrameReader
	message  h3.Message
	part     clientPart
	in       *buf.Buffer // what was read; nil: nothing yet
	from, to int         // of in: what was not used
	isFin    bool        // the server has sent the end of the stream
	isTunnel bool        // a 2xx response to an extended CONNECT has come
	interims uint8
	declared int64 // bytes of the body according to the head; -1: unknown
	received int64
	ignored  int    // what brought nothing
	rest     []byte // a part of in that is body, for Read
	end      error  // of Read; nil: the body goes on
}

// A clientPart is what the next bytes of a response are.
type clientPart uint8

const (
	atFrame clientPart = iota // the header of a frame
	inData
	inSection // a field section
	inIgnored // a frame without a meaning
)

const (
	// clientInput is how many bytes of a response are read at once, but into the memory of Read.
	clientInput = 16 << 10
	// maxIgnored bounds what a response may have that brings nothing: an empty frame of DATA or
	// one without a meaning counts 1, and 1 for each ignoredPer bytes.
	maxIgnored = 1000
	ignoredPer = 256
)

// receive reads the response until it is complete, or its body is streamed.
func (s *clientStream) receive() error {
	s.message.Side = h3.Client
	s.decoder.Limits = s.conn.peers.host.Limits
	s.declared = -1
	for {
		data, err := s.next()
		switch {
		case err == io.EOF:
			s.complete()
			return nil
		case err != nil:
			return s.fail(err)
		case s.state == clientStreaming:
			return nil
		case len(data) == 0:
			continue
		}
		s.mu.Lock()
		err = s.params.Request.BodyReceived(data)
		s.mu.Unlock()
		if err != nil {
			return s.fail(err)
		}
	}
}

// complete notes that the response is complete.
func (s *clientStream) complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = clientEnded
}

// fail ends the stream because of err, and the connection if err is a violation that does so.
func (s *clientStream) fail(err error) error {
	code := h3.RequestCancelled
	if v := h3.Violation(err); v != nil {
		if v.Scope == h3.ConnectionScope {
			s.conn.fail(v)
		}
		err, code = violationError(v), v.Code
	}
	return s.abort(err, code)
}

// next reads up to the next part of the body, which it returns. It is valid until the next call.
// It also returns, with neither data nor an error, after the head. The error is io.EOF after a
// complete message.
func (s *clientStream) next() (data []byte, err error) {
	for {
		if s.from == s.to && (s.part == atFrame || s.frames.Left > 0) {
			if err := s.fill(); err == io.EOF {
				return nil, s.inputEnded()
			} else if err != nil {
				return nil, err
			}
		}
		if s.part == atFrame {
			used, isWhole := s.frames.ReadHeader(s.in.B[s.from:s.to])
			s.from += used
			if !isWhole {
				continue
			}
			if err := s.beginFrame(); err != nil {
				return nil, err
			}
			if s.from == s.to && s.frames.Left > 0 {
				continue
			}
		}
		piece, isEnd := s.frames.Take(s.in.B[s.from:s.to])
		s.from += len(piece)
		part := s.part
		if isEnd {
			s.part = atFrame
		}
		switch part {
		case inData:
			if err := s.count(len(piece)); err != nil {
				return nil, err
			}
			if len(piece) > 0 {
				return piece, nil
			}
		case inSection:
			isFinal, err := s.sectionReceived(piece, isEnd)
			if isFinal || err != nil {
				return nil, err
			}
		}
	}
}

// fill reads input, of which there is none. It returns io.EOF at the end of the stream.
func (s *clientStream) fill() error {
	if s.isFin {
		return io.EOF
	}
	room := clientInput
	if s.isTunnel {
		room = tunnelInput
	}
	if s.in == nil {
		s.in = buf.Get(room)
	}
	s.from, s.to = 0, 0
	n, err := s.read(s.in.B[:room])
	s.to = n
	return err
}

// read reads from the stream. It returns io.EOF only without a byte, at the end of the stream.
func (s *clientStream) read(p []byte) (int, error) {
	if s.state == clientStreaming && s.params.ReadTimeout > 0 {
		s.mu.Lock()
		s.setReadDueLocked(clock.Later(clock.Nanos(), s.params.ReadTimeout))
		s.mu.Unlock()
	}
	for {
		n, err := s.quic.Read(p)
		switch {
		case err == io.EOF:
			s.isFin = true
			if n > 0 {
				err = nil
			}
			return n, err
		case n > 0, err == nil:
			return n, nil // an error comes again
		}
		if err = s.readFailed(err); err != nil {
			return 0, err
		}
	}
}

// readFailed returns the error for an error of the QUIC stream, nil if the read is to go on.
func (s *clientStream) readFailed(err error) error {
	lost := s.conn.lost(err)
	var reset *quic.StreamError
	if errors.As(err, &reset) && h3.Code(reset.ErrorCode) == h3.RequestRejected {
		// GOAWAY may come later than this. On the same connection the request would be
		// rejected again.
		s.conn.peers.pool.Drain(s.conn.peers.settings, s.conn.member)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		return s.cause
	case errors.Is(err, os.ErrDeadlineExceeded):
		if !s.isTunnel && (s.readDue == 0 || clock.Nanos() < s.readDue) { // it was moved just now
			return nil
		}
		return os.ErrDeadlineExceeded
	case reset != nil:
		code := h3.Code(reset.ErrorCode)
		s.failure.NeedsHTTP1 = code == h3.VersionFallback
		s.failure.IsSafe = code == h3.RequestRejected || s.failure.NeedsHTTP1
		return &Error{Code: uint64(code), IsRemote: true, text: "the server has reset the stream"}
	}
	return lost
}

// inputEnded returns io.EOF if the message may end here.
func (s *clientStream) inputEnded() error {
	if !s.frames.IsBetween() {
		return h3.ErrFrameLength // it ends within a frame (RFC 9114 section 7.1)
	}
	if err := s.message.End(); err != nil {
		return err
	}
	if s.declared >= 0 && s.received != s.declared {
		return h3.ErrBodyLength
	}
	return io.EOF
}

// beginFrame checks the header of a frame.
func (s *clientStream) beginFrame() error {
	isKnown, violation := s.message.Admit(s.frames.Type)
	if violation != nil {
		return violation
	}
	left := s.frames.Left
	switch {
	case !isKnown:
		s.part = inIgnored
		return s.ignore(left)
	case s.frames.Type == h3.FrameData:
		s.part = inData
		if left == 0 {
			return s.ignore(0)
		}
		return nil
	}
	s.part, s.section = inSection, s.section[:0]
	if left > uint64(s.decoder.MaxSection()) {
		return h1.ErrHeadTooLarge
	}
	return nil
}

// ignore counts n bytes that bring nothing.
func (s *clientStream) ignore(n uint64) error {
	s.ignored += 1 + int(min(n/ignoredPer, maxIgnored))
	if s.ignored > maxIgnored {
		return h3.ErrNothing
	}
	return nil
}

// count counts n bytes of the body.
func (s *clientStream) count(n int) error {
	s.received += int64(n)
	if s.declared >= 0 && s.received > s.declared {
		return h3.ErrBodyLength
	}
	return nil
}

// sectionReceived handles a part of a field section. isFinal: the head is there.
func (s *clientStream) sectionReceived(piece []byte, isEnd bool) (isFinal bool, err error) {
	if !isEnd || len(s.section) > 0 {
		s.section = append(s.section, piece...)
		piece = s.section
	}
	switch {
	case !isEnd:
		return false, nil
	case s.message.IsTrailer():
		return false, s.trailerReceived(piece)
	}
	return s.headReceived(piece)
}

// headReceived handles a head.
func (s *clientStream) headReceived(section []byte) (isFinal bool, err error) {
	request := s.params.Request
	s.mu.Lock()
	fields := request.Fields()
	err = s.decoder.Decode(section, fieldlist.Response, fields, &s.head)
	if err != nil {
		s.mu.Unlock()
		return false, err
	}
	status := s.head.StatusCode
	isInterim := status < 200
	isLast := s.isFin && s.from == s.to
	s.message.HeadReceived(isInterim)
	if isInterim {
		_, err = request.HeadReceived(&s.head, false)
		s.mu.Unlock()
		if err == nil {
			err = s.interimReceived(fields)
		}
		return false, err
	}
	defer s.mu.Unlock()
	if s.isTunnel = s.params.IsConnect && status < 300; s.isTunnel {
		s.message.Tunnel()
	}
	switch {
	case s.isTunnel: // RFC 9114 section 4.4: a Content-Length has no meaning
	case s.params.IsHead, status == 204, status == 304:
		s.declared = 0
	case s.head.Has(h1.HasLength):
		s.declared = s.head.ContentLength
	}
	if isLast && s.declared > 0 {
		return false, h3.ErrBodyLength
	}
	isStreamed, err := request.HeadReceived(&s.head, isLast)
	if err == nil && isStreamed {
		s.state = clientStreaming
		s.setReadDueLocked(0)
		if s.writeDue != 0 {
			_ = s.quic.SetWriteDeadline(time.Time{})
		}
	}
	return true, err
}

// interimReceived passes an interim head on.
func (s *clientStream) interimReceived(fields *field.Table) error {
	if s.interims++; s.interims > streams.MaxInterims {
		return streams.ErrInterim
	}
	if s.params.WantsInterims {
		s.params.Request.InterimReceived(&s.head, fields)
	}
	fields.Reset()
	return nil
}

// trailerReceived handles the trailer fields.
func (s *clientStream) trailerReceived(section []byte) error {
	s.trailer.Reset()
	s.trailer.KeepNames = true // the Request knows how it spells names
	if err := s.decoder.Decode(section, fieldlist.Trailer, &s.trailer, nil); err != nil {
		return err
	}
	s.message.TrailerReceived()
	h1.DropForbiddenTrailers(&s.trailer)
	if s.trailer.Len() > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.params.Request.TrailerReceived(&s.trailer)
	}
	return nil
}

// Read implements streams.Stream.
func (s *clientStream) Read(p []byte) (int, error) {
	if len(p) == 0 || s.end != nil {
		return 0, s.end
	}
	if len(s.rest) == 0 && s.part == inData && s.from == s.to {
		return s.readDirect(p)
	}
	for len(s.rest) == 0 {
		data, err := s.next()
		if err != nil {
			return 0, s.ended(err)
		}
		s.rest = data
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// readDirect reads a part of a frame of DATA into p.
func (s *clientStream) readDirect(p []byte) (int, error) {
	p = p[:min(uint64(len(p)), s.frames.Left)]
	n, err := s.read(p)
	if err == io.EOF {
		err = s.inputEnded()
	}
	if err == nil {
		if _, isEnd := s.frames.Take(p[:n]); isEnd {
			s.part = atFrame
		}
		err = s.count(n)
	}
	if err != nil {
		return 0, s.ended(err)
	}
	return n, nil
}

// ended notes the end of a streamed body, and returns the error of reading it.
func (s *clientStream) ended(err error) error {
	switch {
	case err == io.EOF:
		s.complete()
	case s.isTunnel && err == os.ErrDeadlineExceeded:
		return err // there may be another deadline
	default:
		err = s.fail(err)
	}
	s.end = err
	return err
}
