package sluice

import (
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/bodystream"
	"github.com/sluicehttp/sluice/internal/clock"
)

var _ ReadCloserWithError = (*bodystream.Stream)(nil)

var _ bodystream.Source = (*http2Call)(nil)

// lend makes the response's body a stream, which owns x. A body stream of the request
// belongs to it, too: it may be read until the response has ended.
func (x *http2Call) lend() {
	req, resp := x.req, x.resp
	req.stream, req.streamWriter, req.streamSize = nil, nil, 0
	x.req = nil
	resp.ParseNetConn(x.member.Conn.cc.wire.Net)
	x.body.Init(x, x.c.MaxResponseBodySize)
	resp.setStream(&x.body, max(resp.Header.ContentLength(), -1))
}

// ReadBody implements bodystream.Source.
func (x *http2Call) ReadBody(p []byte) (int, error) { return x.stream.Read(p) }

// IsComplete implements bodystream.Source: only Read finds the end.
func (*http2Call) IsComplete() bool { return false }

// Interrupt implements bodystream.Source.
func (x *http2Call) Interrupt() { _ = x.stream.Close() }

// End implements bodystream.Source. If the body was not read to its end, it resets the
// stream.
func (x *http2Call) End(err error) error {
	_ = x.stream.Close()
	switch {
	case err == io.EOF:
		x.receiveTrailers()
	case err == bodystream.ErrClosed:
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	default:
		call := clientCall{Bounds: clock.Bounds{Context: x.stream.Context}, phase: PhaseRead}
		err = call.explain(err)
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
