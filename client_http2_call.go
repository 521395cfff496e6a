package sluice

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// http2Call is one request and its response as a stream of HTTP/2. The request's call
// owns it; if the body is streamed, the response does.
type http2Call struct {
	stream   http2client.Stream
	c        *HostClient
	member   *http2Member
	req      *Request
	resp     *Response
	call     *clientCall
	framing  message.Framing
	source   body.Upload    // the body stream of the request
	gate     *body.Gate     // keeps source back until the status 100; nil: it does not wait
	content  *buf.Buffer    // a copy of the request's body; nil: there is none
	late     *RequestHeader // a copy of the request's, for its trailers; nil: there is none
	trailers field.Table    // of the response
	form     http2Form
	unwanted int         // bytes of a body that is dropped
	protocol []byte      // of an extended CONNECT; nil: it is another request
	body     body.Stream // a body that is read as it arrives
}

// http2Form is what has come of a response, and what happens with its body.
type http2Form uint8

const (
	noFinalHead  http2Form = iota
	headAlone              // no body follows
	bodyKept               // in the memory of the response
	bodyStreamed           // as a stream
	bodyDropped
)

var _ http2client.Request = (*http2Call)(nil)

// errUnwantedBody ends a stream whose response is complete but for an unwanted body.
var errUnwantedBody = errors.New("sluice: the body is unwanted")

// http2Outcome says what came of sending a request.
type http2Outcome uint8

const (
	http2Done    http2Outcome = iota // or failed
	http2Stale                       // nothing was sent, because the connection had ended or was full
	http2Invalid                     // the request cannot be sent
)

// runHTTP2 sends a request as a stream of m, and gives its place back.
func (c *HostClient) runHTTP2(call *clientCall, m *http2Member, req *Request, resp *Response) (http2Outcome, error) {
	call.progress, call.upstream, call.phase = hasConn, m.Conn.addr, PhaseWrite
	x := acquireHTTP2Call()
	x.c, x.member, x.call, x.req, x.resp = c, m, call, req, resp
	if err := x.prepare(); err != nil {
		x.end()
		return http2Invalid, err
	}
	if trace := call.trace; trace != nil && trace.WroteRequest != nil {
		guarded(func() { trace.WroteRequest(nil) }, x.end)
	}
	var err error
	if x.stream.WantsInterims {
		guarded(func() { err = m.Conn.conn.Do(&x.stream) }, x.end)
	} else {
		err = m.Conn.conn.Do(&x.stream)
	}
	if errors.Is(err, errUnwantedBody) {
		err = nil
	}
	outcome := http2Done
	switch {
	case err != nil:
		outcome = x.fail(err)
		err = x.explain(err)
	case x.form == bodyStreamed:
		x.streamBody()
		call.trace.firstByte(resp)
		return http2Done, nil
	default:
		x.finish()
	}
	x.end()
	if err == nil {
		call.trace.firstByte(resp)
	}
	return outcome, err
}

// prepare sets what the stream needs of the request.
func (x *http2Call) prepare() error {
	req, call, s := x.req, x.call, &x.stream
	if err := req.prepareHead(); err != nil {
		return err
	}
	s.Request = x
	s.IsHead = req.Header.IsHead()
	s.WantsInterims = x.resp.OnInterim != nil
	s.HasTrailer = req.Header.m.HasTrailers() || mayHaveTrailers(req.streamed())
	if s.HasTrailer && x.resp.StreamBody {
		// The caller owns the request again before they may have been sent.
		x.late = new(RequestHeader)
		req.Header.CopyTo(x.late)
	}
	s.Deadline, s.WriteTimeout, s.ReadTimeout = call.Deadline, x.c.WriteTimeout, x.c.ReadTimeout
	if call.Done() != nil {
		s.Context = call.Context
	}
	if req.streamed() != nil {
		x.source = body.Upload{Stream: req.takeStream(), Panicked: message.StreamPanic}
		s.Source, s.Length = &x.source, int64(max(req.bodyLength(), -1))
		x.framing = message.Framing{Length: s.Length, HasContent: req.bodyLength() > 0}
		req.Header.SetContentLength(int(s.Length))
		x.hold()
		return nil
	}
	s.Content, x.framing = req.framed()
	if len(s.Content) > 0 && x.resp.StreamBody {
		// The caller owns the request again before all of it may have been sent.
		x.content = buf.Get(len(s.Content))
		x.content.B = append(x.content.B[:0], s.Content...)
		s.Content = x.content.B
	}
	if call.patience > 0 && len(s.Content) > 0 {
		x.source = body.Upload{Stream: bytes.NewReader(s.Content), Panicked: message.StreamPanic}
		s.Source, s.Length = &x.source, int64(len(s.Content))
		x.hold()
	}
	return nil
}

// hold makes the body wait for the status 100 if the request expects it.
func (x *http2Call) hold() {
	if patience := x.call.patience; patience > 0 {
		x.gate = body.NewGate()
		x.stream.Source = body.HeldUpload{Upload: &x.source, Gate: x.gate, Patience: patience}
	}
}

// fail notes how far a request has come that failed with err.
func (x *http2Call) fail(err error) http2Outcome {
	req, call := x.req, x.call
	outcome, isSafe := http2Done, false
	var failed *http2client.Error
	if errors.As(err, &failed) {
		isSafe = failed.Outcome.IsSafe()
		call.needsHTTP1 = failed.Code == h2.CodeHTTP11Required
		switch {
		case failed.Outcome == http2client.Unsent:
			outcome = http2Stale
		case x.stream.Sent():
			call.phase = PhaseRead
		}
	}
	if !isSafe {
		call.progress = hasSent
	}
	if req.streamed() != nil && (!isSafe || !x.source.Rewind()) {
		_ = req.endStream(err)
	}
	return outcome
}

// explain returns the error for a request that failed with err.
func (x *http2Call) explain(err error) error {
	p := x.member.Conn
	var violation *h2.Error
	switch {
	case x.call.needsHTTP1 && x.c.HTTP2 == HTTP2Only:
		return message.Known(ErrNoHTTP2, err)
	case !p.isSettled.Load() && !x.c.IsTLS && errors.As(err, &violation):
		return message.Known(ErrNoHTTP2, err) // what came is not HTTP/2
	case errors.Is(err, http2client.ErrSourceLength):
		return fmt.Errorf("sluice: body stream ended after %d of %d bytes: %w", x.source.Count, x.stream.Length, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF) && x.form != noFinalHead:
		return message.Known(io.ErrUnexpectedEOF, err)
	case errors.Is(err, io.EOF), errors.Is(err, http2client.ErrGoingAway):
		return message.Known(io.EOF, err) // Do makes it ErrConnectionClosed
	}
	return err
}

// finish completes the response.
func (x *http2Call) finish() {
	if x.req.streamed() != nil {
		_ = x.req.endStream(nil) // the response counts, not how the stream was closed
	}
	resp := x.resp
	x.receiveTrailers()
	resp.ParseNetConn(x.member.Conn.nc)
	if resp.StreamBody && x.form == headAlone && !x.stream.IsHead && !message.BodyForbidden(resp.StatusCode()) {
		resp.setStream(bytes.NewReader(nil), 0)
	}
}

// receiveTrailers adds the trailer fields to the response.
func (x *http2Call) receiveTrailers() {
	if x.trailers.Len() > 0 {
		x.resp.Header.m.ReceiveTrailers(&x.trailers)
		x.trailers.Reset()
	}
}

// end gives the place and x back.
func (x *http2Call) end() {
	if x.content != nil {
		x.content.Release()
	}
	x.c.releaseHTTP2(x.member)
	releaseHTTP2Call(x)
}

// AppendHead implements http2client.Request.
func (x *http2Call) AppendHead(dst []byte, e *h2.Encoder) []byte {
	scheme := textHTTP
	if x.c.IsTLS {
		scheme = textHTTPS
	}
	if x.protocol != nil {
		return x.req.Header.m.AppendConnect(dst, e, scheme, x.protocol)
	}
	return x.req.Header.m.AppendFields(dst, e, scheme, x.framing)
}

// The schemes of requests. They are never written to.
var (
	textHTTP  = []byte(schemeHTTP)
	textHTTPS = []byte(schemeHTTPS)
)

// A trailerStream is a body stream that knows trailer fields at its end, when the request may be
// another's already. fasthttpadaptor and package proxy make them.
type trailerStream interface {
	// ReadTrailers adds the fields to h, which has what the request announces.
	ReadTrailers(h *RequestHeader)
}

// mayHaveTrailers reports whether a body stream says that it may have trailer fields which the
// request does not announce. Those of package proxy do.
func mayHaveTrailers(stream io.Reader) bool {
	s, ok := stream.(interface{ MayHaveTrailers() bool })
	return ok && s.MayHaveTrailers()
}

// AppendTrailer implements http2client.Request.
func (x *http2Call) AppendTrailer(dst []byte, e *h2.Encoder) []byte {
	if x.late != nil {
		if s, ok := x.source.Stream.(trailerStream); ok {
			s.ReadTrailers(x.late)
		}
		return x.late.m.AppendTrailerFields(dst, e)
	}
	return x.req.Header.m.AppendTrailerFields(dst, e)
}

// Fields implements http2client.Request.
func (x *http2Call) Fields() *field.Table { return &x.resp.Header.m.Table }

// HeadReceived implements http2client.Request.
func (x *http2Call) HeadReceived(head *fieldlist.Head, isLast bool) (isStreamed bool, err error) {
	switch {
	case x.gate == nil:
	case head.StatusCode == StatusContinue:
		x.gate.Open()
	case head.StatusCode >= 200:
		x.gate.Close()
	}
	if head.StatusCode < 200 {
		return false, nil
	}
	resp, limit := x.resp, x.c.MaxResponseBodySize
	resp.Header.m.SetReceived(head, isLast)
	resp.setLimit(max(limit, 0))
	wants := x.call.wants
	isUnwanted := wants.drops(&resp.Header)
	if wants == wantsBytes && !isUnwanted {
		resp.StreamBody = false
	}
	length := resp.Header.ContentLength()
	switch {
	case x.protocol != nil && (!isLast || head.StatusCode < 300):
		x.form = bodyStreamed
	case isLast:
		x.form = headAlone
	case x.stream.IsHead || message.BodyForbidden(head.StatusCode):
		x.form = bodyDropped // there is none
	case resp.SkipBody || resp.StreamBody && isUnwanted:
		x.form = bodyDropped
		if length < 0 || length > http1client.MaxDropped {
			return false, errUnwantedBody
		}
	case limit > 0 && length > limit || length == message.TooLong:
		x.form = bodyDropped
		return false, ErrBodyTooLarge
	case resp.StreamBody:
		x.form = bodyStreamed
	default:
		x.form = bodyKept
	}
	return x.form == bodyStreamed, nil
}

// InterimReceived implements http2client.Request.
func (x *http2Call) InterimReceived(head *fieldlist.Head, t *field.Table) {
	if head.StatusCode == StatusContinue {
		return
	}
	var h ResponseHeader
	t.CopyTo(&h.m.Table)
	h.m.SetReceived(head, false)
	x.resp.OnInterim(&h)
}

// BodyReceived implements http2client.Request.
func (x *http2Call) BodyReceived(p []byte) error {
	resp := x.resp
	if x.form == bodyDropped {
		if x.unwanted += len(p); x.unwanted > http1client.MaxDropped {
			return errUnwantedBody
		}
		return nil
	}
	return resp.receive(p)
}

// TrailerReceived implements http2client.Request. The response may be in use if its body
// is streamed, so the fields wait for its end.
func (x *http2Call) TrailerReceived(t *field.Table) { t.CopyTo(&x.trailers) }

var _ ReadCloserWithError = (*body.Stream)(nil)

var _ body.Source = (*http2Call)(nil)

// streamBody makes the response's body a stream, which owns x. A body stream of the request
// belongs to it, too: it may be read until the response has ended.
func (x *http2Call) streamBody() {
	req, resp := x.req, x.resp
	req.leaveStream()
	x.req, x.call = nil, nil
	resp.ParseNetConn(x.member.Conn.nc)
	x.body.Init(x, x.c.MaxResponseBodySize)
	resp.setStream(&x.body, max(resp.Header.ContentLength(), -1))
}

// ReadBody implements body.Source.
func (x *http2Call) ReadBody(p []byte) (int, error) { return x.stream.Read(p) }

// IsComplete implements body.Source: only Read finds the end.
func (*http2Call) IsComplete() bool { return false }

// Interrupt implements body.Source.
func (x *http2Call) Interrupt() { _ = x.stream.Close() }

// End implements body.Source. If the body was not read to its end, it resets the
// stream.
func (x *http2Call) End(err error) error {
	_ = x.stream.Close()
	switch {
	case err == io.EOF:
		x.receiveTrailers()
	case err == body.ErrClosed:
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	default:
		call := clientCall{Bounds: clock.Bounds{Context: x.stream.Context}, phase: PhaseRead}
		err = call.explain(err)
	}
	if x.source.Stream != nil {
		var rest messageBody
		rest.setStream(x.source.Stream, -1)
		_ = rest.endStream(nil)
	}
	if x.content != nil {
		x.content.Release()
	}
	x.c.releaseHTTP2(x.member)
	return err
}
