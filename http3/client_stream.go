package http3

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// A clientStream is a request and its response. The caller of Do, and later that of Read, reads
// the response; a goroutine sends a body that is not small.
type clientStream struct {
	params   streams.Params
	conn     *clientConn
	isReused bool

	encoder h3.Encoder
	decoder h3.Decoder
	head    fieldlist.Head
	trailer field.Table
	section []byte // a field section that is being built, or has arrived in part
	out     []byte
	response

	uploads sync.WaitGroup
	unwatch func() bool // ends the watch of Context; nil: there is none

	// mu is held while a method of Request runs, but InterimReceived.
	mu       sync.Mutex
	quic     *quic.Stream
	state    clientState
	cause    error // why the stream was ended by us; nil: it was not
	failure  streams.Failure
	upload   clientUpload
	isSent   bool  // the request is complete
	readDue  int64 // the deadline of reads, in clock.Nanos; 0: none
	writeDue int64
}

// A clientState is whether a clientStream carries a request.
type clientState uint8

const (
	clientIdle clientState = iota
	clientOpen
	clientStreaming // Do has returned; Read reads the body
	clientEnded
)

// A clientUpload is what the goroutine of a body does.
type clientUpload uint8

const (
	uploadNone clientUpload = iota
	uploadReading
	uploadSending
	uploadUnwanted // it reads no more
)

var _ streams.Stream = (*clientStream)(nil)

// Params implements streams.Stream.
func (s *clientStream) Params() *streams.Params { return &s.params }

// NetConn implements streams.Stream.
func (s *clientStream) NetConn() net.Conn { return s.conn.info }

// Upstream implements streams.Stream.
func (s *clientStream) Upstream() string { return s.conn.addr }

// IsReused implements streams.Stream.
func (s *clientStream) IsReused() bool { return s.isReused }

// Failure implements streams.Stream.
func (s *clientStream) Failure() streams.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failure
	f.IsRead = s.isSent
	return f
}

// Do implements streams.Stream.
func (s *clientStream) Do() error {
	if err := s.begin(); err != nil {
		// The time that WriteTimeout allows is not allowed again at once.
		s.failure = streams.Failure{IsSafe: true, IsUnsent: !errors.Is(err, os.ErrDeadlineExceeded)}
		return err
	}
	err := s.sendRequest()
	if err == nil {
		err = s.receive()
	}
	if err != nil || s.state != clientStreaming {
		s.endUpload()
	}
	return err
}

// begin opens the stream.
func (s *clientStream) begin() error {
	bounds := clock.Bounds{Context: s.params.Context, Deadline: s.params.Deadline}
	if err := bounds.Err(); err != nil {
		return err
	}
	err := error(nil)
	if s.params.IsConnect {
		err = s.conn.awaitConnect(bounds)
	}
	if err == nil {
		err = s.conn.add(s)
	}
	switch {
	case err == nil:
	case err == streams.ErrElsewhere, err == errNoConnect:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), bounds.HasEnded(), err == errFull, err == errGoingAway:
		return err
	default:
		s.conn.peers.pool.Drain(s.conn.peers.settings, s.conn.member) // before it is taken again
		return s.conn.lost(err)
	}
	stream := s.quic
	if bounds.Done() != nil {
		ctx := bounds.Context
		s.unwatch = context.AfterFunc(ctx, func() { s.abortIf(stream, context.Cause(ctx), streams.Failure{}) })
	}
	return nil
}

// opened makes stream the QUIC stream of s.
func (s *clientStream) opened(stream *quic.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quic, s.state = stream, clientOpen
}

// sendRequest sends the request, or its head if a goroutine sends the body.
func (s *clientStream) sendRequest() error {
	p := &s.params
	bounds := clock.Bounds{Deadline: p.Deadline}
	due := bounds.Limit(p.WriteTimeout)
	s.mu.Lock()
	if s.writeDue = due; due != 0 {
		_ = s.quic.SetWriteDeadline(clock.DeadlineOrNone(due))
	}
	s.setReadDueLocked(due)
	section := p.Request.AppendHead(s.encoder.Begin(s.section[:0]), &s.encoder)
	s.out = appendFrame(s.out[:0], h3.FrameHeaders, section)
	s.section = section[:0]
	isAside := p.Source != nil || len(s.out)+len(p.Content) > withHead
	if !isAside {
		if len(p.Content) > 0 {
			s.out = appendFrame(s.out, h3.FrameData, p.Content)
		}
		s.out = s.appendTrailerLocked(s.out)
	}
	isAside = isAside && (p.Source != nil || len(p.Content) > 0 || p.HasTrailer)
	s.mu.Unlock()
	_, err := s.quic.Write(s.out)
	switch {
	case err != nil:
		return s.writeFailed(err)
	case isAside:
		s.setUpload(uploadSending)
		s.uploads.Add(1)
		go s.sendAside()
		return nil
	case p.IsConnect:
		s.mu.Lock()
		s.awaitResponseLocked()
		s.mu.Unlock()
		return nil
	}
	s.sent()
	return nil
}

// appendFrame appends a frame.
func appendFrame(dst []byte, t h3.FrameType, payload []byte) []byte {
	return append(h3.AppendFrameHeader(dst, t, uint64(len(payload))), payload...)
}

// appendTrailerLocked appends the trailer fields of the request, if it has some.
func (s *clientStream) appendTrailerLocked(dst []byte) []byte {
	if !s.params.HasTrailer {
		return dst
	}
	var room [256]byte
	section := s.encoder.Begin(room[:0])
	empty := len(section)
	if section = s.params.Request.AppendTrailer(section, &s.encoder); len(section) == empty {
		return dst
	}
	return appendFrame(dst, h3.FrameHeaders, section)
}

// sent ends the request.
func (s *clientStream) sent() {
	_ = s.quic.Close() // it fails if the server wants no more
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isSent = true
	s.awaitResponseLocked()
}

// awaitResponseLocked says that nothing more is sent: from now on, ReadTimeout bounds the response.
func (s *clientStream) awaitResponseLocked() {
	if s.state != clientOpen {
		return
	}
	bounds := clock.Bounds{Deadline: s.params.Deadline}
	s.setReadDueLocked(bounds.Limit(s.params.ReadTimeout))
}

// setReadDueLocked sets when a waiting read ends.
func (s *clientStream) setReadDueLocked(due int64) {
	if due != s.readDue {
		s.readDue = due
		_ = s.quic.SetReadDeadline(clock.DeadlineOrNone(due))
	}
}

// writeFailed handles the error of a write. It returns nil if the server only wants no more of the
// request: the response tells why.
func (s *clientStream) writeFailed(err error) error {
	switch {
	case isPeerReset(err):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.awaitResponseLocked()
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.abort(os.ErrDeadlineExceeded, h3.RequestCancelled)
	}
	return s.abort(s.conn.lost(err), h3.RequestCancelled)
}

// sendAside sends the body.
func (s *clientStream) sendAside() {
	defer s.uploads.Done()
	defer s.setUpload(uploadNone)
	err, isWrite := s.sendBody()
	switch {
	case err == nil:
		s.sent()
	case err == body.ErrWithheld:
		s.mu.Lock()
		s.awaitResponseLocked()
		s.mu.Unlock()
	case isWrite:
		_ = s.writeFailed(err)
	default:
		_ = s.abort(err, h3.RequestCancelled)
	}
}

// setUpload notes what the goroutine of the body does now. It returns false if it is to end.
func (s *clientStream) setUpload(state clientUpload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upload == uploadUnwanted {
		return false
	}
	s.upload = state
	return true
}

// uploadSize is how many bytes of a body stream are read at once, and at most in a frame.
const uploadSize = 32 << 10

// maxFrameHeader is the length of the longest header of a frame of DATA that we send.
const maxFrameHeader = 9

// sendBody sends the body and the trailer fields. isWrite: the error is that of the stream.
func (s *clientStream) sendBody() (err error, isWrite bool) {
	p := &s.params
	if p.Source == nil {
		if len(p.Content) > 0 {
			var room [maxFrameHeader]byte
			header := h3.AppendFrameHeader(room[:0], h3.FrameData, uint64(len(p.Content)))
			if _, err := s.quic.Write(header); err != nil {
				return err, true
			}
			if _, err := s.quic.Write(p.Content); err != nil {
				return err, true
			}
		}
		return s.sendTrailer(), true
	}
	b := buf.Get(maxFrameHeader + uploadSize)
	defer b.Release()
	room := b.B[:maxFrameHeader+uploadSize]
	left := p.Length
	for err == nil {
		part := room[maxFrameHeader:]
		if left >= 0 {
			part = part[:min(left, uploadSize)]
		}
		n := 0
		if len(part) > 0 {
			if !s.setUpload(uploadReading) {
				return body.ErrWithheld, false
			}
			n, err = p.Source.Read(part)
			s.setUpload(uploadSending)
		}
		if left >= 0 {
			left -= int64(n)
		}
		switch {
		case left == 0:
			err = io.EOF
		case err == io.EOF && left > 0:
			err = streams.ErrSourceLength
		}
		if n > 0 && (err == nil || err == io.EOF) {
			var header [maxFrameHeader]byte
			h := h3.AppendFrameHeader(header[:0], h3.FrameData, uint64(n))
			start := maxFrameHeader - len(h)
			copy(room[start:], h)
			if _, err := s.quic.Write(room[start : maxFrameHeader+n]); err != nil {
				return err, true
			}
		}
	}
	if err != io.EOF {
		return err, false
	}
	return s.sendTrailer(), true
}

// sendTrailer sends the trailer fields.
func (s *clientStream) sendTrailer() error {
	s.mu.Lock()
	frame := s.appendTrailerLocked(nil)
	s.mu.Unlock()
	if len(frame) == 0 {
		return nil
	}
	_, err := s.quic.Write(frame)
	return err
}

// abort ends the stream because of err, and returns why it has ended.
func (s *clientStream) abort(err error, code h3.Code) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abortLocked(err, code)
}

// abortLocked is abort with the lock.
func (s *clientStream) abortLocked(err error, code h3.Code) error {
	if s.cause != nil {
		return s.cause
	}
	if s.state != clientOpen && s.state != clientStreaming {
		return err
	}
	s.cause = err
	s.quic.CancelRead(quic.StreamErrorCode(code))
	s.quic.CancelWrite(quic.StreamErrorCode(code))
	return err
}

// abortIf is abort if s still is the user of stream.
func (s *clientStream) abortIf(stream *quic.Stream, err error, f streams.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quic == stream && s.state != clientEnded && s.cause == nil {
		s.failure = f
		_ = s.abortLocked(err, h3.RequestCancelled)
	}
}

// endUpload ends what is left of the request, when it is not wanted any more, and waits until
// Source is not used.
func (s *clientStream) endUpload() {
	s.mu.Lock()
	upload := s.upload
	s.upload = uploadUnwanted // also if it was sending, and would read next
	if upload == uploadReading || upload == uploadSending || !s.isSent {
		s.quic.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
	}
	s.mu.Unlock()
	if upload == uploadReading {
		if source, ok := s.params.Source.(io.Closer); ok {
			_ = source.Close() // it makes Read return
		}
	}
	s.uploads.Wait()
}

// errClosed is the cause of a stream that its user has closed.
var errClosed = errors.New("sluice: http3: the stream is closed")

// Close implements streams.Stream.
func (s *clientStream) Close() error {
	s.mu.Lock()
	if s.quic == nil { // Do has not opened it
		s.mu.Unlock()
		return nil
	}
	if s.state != clientEnded {
		_ = s.abortLocked(errClosed, h3.RequestCancelled)
	}
	s.mu.Unlock()
	s.endUpload()
	return nil
}

// Release implements streams.Stream.
func (s *clientStream) Release() {
	_ = s.Close()
	if s.unwatch != nil {
		s.unwatch()
	}
	c := s.conn
	if s.quic != nil {
		c.remove(s.quic.StreamID())
	}
	releaseClientStream(s)
	c.peers.pool.Release(c.peers.settings, c.member)
}
