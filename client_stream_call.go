package sluice

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// streamCall is one request and its response as a stream. The request's call owns it; if the body
// is streamed, the response does.
type streamCall struct {
	carrier  carrier
	params   streams.Params
	c        *HostClient
	nc       net.Conn // on which the carrier is
	req      *Request
	resp     *Response
	call     *clientCall
	framing  message.Framing
	source   body.Upload    // the body stream of the request
	gate     *body.Gate     // keeps source back until the status 100; nil: it does not wait
	content  *buf.Buffer    // a copy of the request's body; nil: there is none
	late     *RequestHeader // a copy of the request's, for its trailers; nil: there is none
	trailers field.Table    // of the response
	form     streamForm
	unwanted int         // bytes of a body that is dropped
	protocol []byte      // of an extended CONNECT; nil: it is another request
	body     body.Stream // a body that is read as it arrives
}

// A carrier is the stream of a protocol that carries a streamCall, as streams.Stream says.
type carrier interface {
	version() uint8 // of HTTP: 2 or 3
	do() error
	failure(err error) streams.Failure
	explain(err error) error // returns the error for a request that failed with err
	readStream(p []byte) (int, error)
	closeStream() error
	tunnel() net.Conn // of an extended CONNECT; nil: the response is not 2xx. It owns the place
	giveBack()        // the place on the connection
	end()             // giveBack, and gives the streamCall back
}

// streamForm is what has come of a response, and what happens with its body.
type streamForm uint8

const (
	noFinalHead  streamForm = iota
	headAlone               // no body follows
	bodyKept                // in the memory of the response
	bodyStreamed            // as a stream
	bodyDropped
)

var _ streams.Request = (*streamCall)(nil)

// errUnwantedBody ends a stream whose response is complete but for an unwanted body.
var errUnwantedBody = errors.New("sluice: the body is unwanted")

// streamOutcome says what came of sending a request.
type streamOutcome uint8

const (
	streamDone    streamOutcome = iota // or failed
	streamStale                        // nothing was sent, because the connection had ended or was full
	streamInvalid                      // the request cannot be sent
)

// run sends the request on the carrier, which it ends unless the response is a stream.
func (x *streamCall) run() (streamOutcome, error) {
	call, resp := x.call, x.resp
	if err := x.prepare(); err != nil {
		x.carrier.end()
		return streamInvalid, err
	}
	if trace := call.trace; trace != nil && trace.WroteRequest != nil {
		guarded(func() { trace.WroteRequest(nil) }, x.carrier.end)
	}
	var err error
	if x.params.WantsInterims {
		guarded(func() { err = x.carrier.do() }, x.carrier.end)
	} else {
		err = x.carrier.do()
	}
	if errors.Is(err, errUnwantedBody) {
		err = nil
	}
	outcome := streamDone
	switch {
	case err != nil:
		outcome = x.fail(err)
		err = x.carrier.explain(err)
	case x.form == bodyStreamed:
		x.streamBody()
		call.trace.firstByte(resp)
		return streamDone, nil
	default:
		x.finish()
	}
	x.carrier.end()
	if err == nil {
		call.trace.firstByte(resp)
	}
	return outcome, err
}

// prepare sets what the stream needs of the request.
func (x *streamCall) prepare() error {
	req, call, s := x.req, x.call, &x.params
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
func (x *streamCall) hold() {
	if patience := x.call.patience; patience > 0 {
		x.gate = x.call.trace.newGate()
		x.params.WantsInterims = x.params.WantsInterims || x.gate.Continued != nil
		x.params.Source = body.HeldUpload{Upload: &x.source, Gate: x.gate, Patience: patience}
	}
}

// fail notes how far a request has come that failed with err.
func (x *streamCall) fail(err error) streamOutcome {
	req, call := x.req, x.call
	outcome, failed := streamDone, x.carrier.failure(err)
	call.needsHTTP1 = failed.NeedsHTTP1
	switch {
	case failed.IsUnsent:
		outcome = streamStale
	case failed.IsRead:
		call.phase = PhaseRead
	}
	if !failed.IsSafe {
		call.progress = hasSent
	}
	if req.streamed() != nil && (!failed.IsSafe || !x.source.Rewind()) {
		_ = req.endStream(err)
	}
	return outcome
}

// explainEnd returns the error for a request that failed with err, whatever the protocol is.
func (x *streamCall) explainEnd(err error) error {
	switch {
	case errors.Is(err, streams.ErrSourceLength):
		return fmt.Errorf("sluice: body stream ended after %d of %d bytes: %w", x.source.Count, x.params.Length, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF) && x.form != noFinalHead:
		return message.Known(io.ErrUnexpectedEOF, err)
	case errors.Is(err, io.EOF):
		return message.Known(io.EOF, err) // Do makes it ErrConnectionClosed
	}
	return err
}

// finish completes the response.
func (x *streamCall) finish() {
	if x.req.streamed() != nil {
		_ = x.req.endStream(nil) // the response counts, not how the stream was closed
	}
	resp := x.resp
	x.receiveTrailers()
	resp.ParseNetConn(x.nc)
	if resp.StreamBody && x.form == headAlone && !x.params.IsHead && !message.BodyForbidden(resp.StatusCode()) {
		resp.setStream(bytes.NewReader(nil), 0)
	}
}

// receiveTrailers adds the trailer fields to the response.
func (x *streamCall) receiveTrailers() {
	if x.trailers.Len() > 0 {
		x.resp.Header.m.ReceiveTrailers(&x.trailers)
		x.trailers.Reset()
	}
}

// drop releases what the request has kept.
func (x *streamCall) drop() {
	if x.content != nil {
		x.content.Release()
		x.content = nil
	}
}

// AppendHead implements streams.Request.
func (x *streamCall) AppendHead(dst []byte, e message.FieldEncoder) []byte {
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

// AppendTrailer implements streams.Request.
func (x *streamCall) AppendTrailer(dst []byte, e message.FieldEncoder) []byte {
	if x.late != nil {
		if s, ok := x.source.Stream.(trailerStream); ok {
			s.ReadTrailers(x.late)
		}
		return x.late.m.AppendTrailerFields(dst, e)
	}
	return x.req.Header.m.AppendTrailerFields(dst, e)
}

// Fields implements streams.Request.
func (x *streamCall) Fields() *field.Table { return &x.resp.Header.m.Table }

// HeadReceived implements streams.Request.
func (x *streamCall) HeadReceived(head *fieldlist.Head, isLast bool) (isStreamed bool, err error) {
	switch {
	case x.gate == nil:
	case head.StatusCode == StatusContinue && x.gate.Continued == nil: // or InterimReceived does it
		x.gate.Open()
	case head.StatusCode >= 200:
		x.gate.Close()
	}
	if head.StatusCode < 200 {
		return false, nil
	}
	resp, limit := x.resp, x.c.MaxResponseBodySize
	resp.Header.m.SetReceived(head, isLast, x.carrier.version())
	resp.setLimit(max(limit, 0))
	isUnwanted := x.call.drops(&resp.Header)
	if x.call.wants == wantsBytes && !isUnwanted {
		resp.StreamBody = false
	}
	length := resp.Header.ContentLength()
	switch {
	case x.protocol != nil && (!isLast || head.StatusCode < 300):
		x.form = bodyStreamed
	case isLast:
		x.form = headAlone
	case x.params.IsHead || message.BodyForbidden(head.StatusCode):
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

// InterimReceived implements streams.Request.
func (x *streamCall) InterimReceived(head *fieldlist.Head, t *field.Table) {
	switch {
	case head.StatusCode == StatusContinue:
		if x.gate != nil {
			x.gate.Continue()
		}
		return
	case x.resp.OnInterim == nil:
		return
	}
	var h ResponseHeader
	t.CopyTo(&h.m.Table)
	h.m.SetReceived(head, false, x.carrier.version())
	x.resp.OnInterim(&h)
}

// BodyReceived implements streams.Request.
func (x *streamCall) BodyReceived(p []byte) error {
	resp := x.resp
	if x.form == bodyDropped {
		if x.unwanted += len(p); x.unwanted > http1client.MaxDropped {
			return errUnwantedBody
		}
		return nil
	}
	return resp.receive(p)
}

// TrailerReceived implements streams.Request. The response may be in use if its body
// is streamed, so the fields wait for its end.
func (x *streamCall) TrailerReceived(t *field.Table) { t.CopyTo(&x.trailers) }

var _ ReadCloserWithError = (*body.Stream)(nil)

var _ body.Source = (*streamCall)(nil)

// streamBody makes the response's body a stream, which owns x. A body stream of the request
// belongs to it, too: it may be read until the response has ended.
func (x *streamCall) streamBody() {
	req, resp := x.req, x.resp
	req.leaveStream()
	x.req, x.call = nil, nil
	resp.ParseNetConn(x.nc)
	x.body.Init(x, x.c.MaxResponseBodySize)
	resp.setStream(&x.body, max(resp.Header.ContentLength(), -1))
}

// ReadBody implements body.Source.
func (x *streamCall) ReadBody(p []byte) (int, error) { return x.carrier.readStream(p) }

// IsComplete implements body.Source: only Read finds the end.
func (*streamCall) IsComplete() bool { return false }

// Interrupt implements body.Source.
func (x *streamCall) Interrupt() { _ = x.carrier.closeStream() }

// End implements body.Source. If the body was not read to its end, it resets the
// stream.
func (x *streamCall) End(err error) error {
	_ = x.carrier.closeStream()
	switch {
	case err == io.EOF:
		x.receiveTrailers()
	case err == body.ErrClosed:
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	default:
		call := clientCall{Bounds: clock.Bounds{Context: x.params.Context}, phase: PhaseRead}
		err = call.explain(err)
	}
	if x.source.Stream != nil {
		var rest messageBody
		rest.setStream(x.source.Stream, -1)
		_ = rest.endStream(nil)
	}
	x.drop()
	x.carrier.giveBack()
	return err
}

// http2Call is a streamCall over HTTP/2.
type http2Call struct {
	streamCall
	stream http2client.Stream
	member *http2Member
}

var _ carrier = (*http2Call)(nil)

// runHTTP2 sends a request as a stream of m, and gives its place back.
func (c *HostClient) runHTTP2(call *clientCall, m *http2Member, req *Request, resp *Response) (streamOutcome, error) {
	call.progress, call.upstream, call.phase = hasConn, m.Conn.addr, PhaseWrite
	x := acquireHTTP2Call()
	x.c, x.member, x.nc, x.call, x.req, x.resp = c, m, m.Conn.nc, call, req, resp
	x.carrier = x
	return x.run()
}

func (x *http2Call) version() uint8 { return 2 }

func (x *http2Call) do() error {
	x.stream.Params = x.params
	return x.member.Conn.conn.Do(&x.stream)
}

func (x *http2Call) failure(err error) (f streams.Failure) {
	var failed *http2client.Error
	if errors.As(err, &failed) {
		f.IsSafe = failed.Outcome.IsSafe()
		f.IsUnsent = failed.Outcome == http2client.Unsent
		f.IsRead = !f.IsUnsent && x.stream.Sent()
		f.NeedsHTTP1 = failed.Code == h2.CodeHTTP11Required
	}
	return f
}

func (x *http2Call) explain(err error) error {
	p := x.member.Conn
	var violation *h2.Error
	switch {
	case x.call.needsHTTP1 && x.c.HTTP2 == HTTP2Only:
		return message.Known(ErrNoHTTP2, err)
	case !p.isSettled.Load() && !x.c.IsTLS && errors.As(err, &violation):
		return message.Known(ErrNoHTTP2, err) // what came is not HTTP/2
	case errors.Is(err, http2client.ErrGoingAway):
		return message.Known(io.EOF, err)
	}
	return x.explainEnd(err)
}

func (x *http2Call) readStream(p []byte) (int, error) { return x.stream.Read(p) }

func (x *http2Call) closeStream() error { return x.stream.Close() }

func (x *http2Call) giveBack() { x.c.releaseHTTP2(x.member) }

func (x *http2Call) end() {
	x.drop()
	x.giveBack()
	releaseHTTP2Call(x)
}
