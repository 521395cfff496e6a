package sluice

import (
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/bodystream"
	"github.com/sluicehttp/sluice/internal/clock"
)

var _ ReadCloserWithError = (*bodystream.Stream)(nil)

// http2Body is the body of a response that is read as it arrives. It owns the stream
// until the end of the body.
type http2Body struct {
	bodystream.Stream
	x    *http2Call
	call clientCall // has the context, but no deadline
}

var _ bodystream.Source = (*http2Body)(nil)

// lend makes the response's body a stream, which owns x. A body stream of the request
// belongs to it, too: it may be read until the response has ended.
func (x *http2Call) lend() {
	req, resp := x.req, x.resp
	req.stream, req.streamWriter, req.streamSize = nil, nil, 0
	x.req = nil
	resp.ParseNetConn(x.member.Conn.cc.wire.Net)
	s := &http2Body{x: x, call: clientCall{Bounds: clock.Bounds{Context: req.call.Context}, phase: PhaseRead}}
	s.Init(s, x.c.MaxResponseBodySize)
	resp.setStream(&s.Stream, max(resp.Header.ContentLength(), -1))
}

// ReadBody implements bodystream.Source.
func (s *http2Body) ReadBody(p []byte) (int, error) { return s.x.stream.Read(p) }

// IsComplete implements bodystream.Source: only Read finds the end.
func (*http2Body) IsComplete() bool { return false }

// Interrupt implements bodystream.Source.
func (s *http2Body) Interrupt() { _ = s.x.stream.Close() }

// End implements bodystream.Source. If the body was not read to its end, it resets the
// stream.
func (s *http2Body) End(err error) error {
	x := s.x
	_ = x.stream.Close()
	switch {
	case err == io.EOF:
		x.receiveTrailers()
	case err == bodystream.ErrClosed:
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	default:
		err = s.call.explain(err)
	}
	if x.source.Stream != nil {
		rest := body{stream: x.source.Stream}
		_ = rest.endStream(nil)
	}
	if x.content != nil {
		x.content.Release()
	}
	x.c.releaseHTTP2(x.member)
	return err
}
