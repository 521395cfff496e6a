package sluice

import (
	"bufio"
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// maxInformational bounds the interim responses before a final one. Without the
// bound, a server could keep a client reading without end.
const maxInformational = 100

var errTooManyInformational = errors.New("sluice: too many informational responses")

// Read reads a response from br. It is ReadLimitBody without a limit. Use
// ReadLimitBody for servers that you do not trust.
func (r *Response) Read(br *bufio.Reader) error { return r.ReadLimitBody(br, 0) }

// ReadLimitBody reads a response, head and body, from br. It skips interim
// responses other than 101. With SkipBody it does not read the body; with
// StreamBody the body is a stream. Responses with status 101, 204 and 304 have
// no body.
//
// maxBodySize and the errors of the body are those of Request.ReadLimitBody. For a stream,
// the limit applies to what Body and similar methods collect, not to what is read from
// the stream. The errors of the head are those of ResponseHeader.Read. The part of a body
// that ends early is kept.
func (r *Response) ReadLimitBody(br *bufio.Reader, maxBodySize int) error {
	r.ResetBody()
	r.Header.m.ResetMessage()
	return r.readFrom(br, message.ReaderLimits(br), nil, maxBodySize, false)
}

// readFrom is ReadLimitBody for a response that is reset, with the given limits
// of the head; see ResponseHeader.Read of package message for last. isTunnel: the request was CONNECT, so that a successful response
// has no body (RFC 9110 section 9.3.6).
func (r *Response) readFrom(br *bufio.Reader, limits h1.Limits, last *h1.LastHead, maxBodySize int, isTunnel bool) error {
	if err := r.readFinalHead(br, limits, last, isTunnel, 0); err != nil {
		return err
	}
	return r.readContent(br, limits, maxBodySize, isTunnel)
}

// readContent reads what follows the head; see readFrom.
func (r *Response) readContent(br *bufio.Reader, limits h1.Limits, maxBodySize int, isTunnel bool) error {
	status := r.StatusCode()
	if r.SkipBody || message.BodyForbidden(status) || isTunnel && status/100 == 2 {
		return nil
	}
	if err := r.readBody(br, limits, maxBodySize); err != nil {
		return err
	}
	if r.Header.ContentLength() == -1 && r.streamed() == nil {
		return body.Unexpected(r.Header.m.ReadTrailer(br, limits))
	}
	return nil
}

// readFinalHead reads heads up to the first one that is not of an interim
// response. There were skipped of these before. See readFrom.
func (r *Response) readFinalHead(br *bufio.Reader, limits h1.Limits, last *h1.LastHead, isTunnel bool, skipped int) error {
	for ; ; skipped++ {
		var err error
		if isTunnel {
			err = r.Header.m.ReadTunnel(br, limits)
		} else {
			err = r.Header.m.Read(br, limits, last)
		}
		if err != nil {
			return startError(err, endedAfter(skipped))
		}
		if status := r.StatusCode(); status >= 200 || status == StatusSwitchingProtocols {
			return nil
		}
		if skipped == maxInformational {
			return errTooManyInformational
		}
		r.passInterim()
	}
}

// endedAfter returns the error of a connection that has ended after so many interim responses.
func endedAfter(interims int) error {
	if interims > 0 {
		return io.ErrUnexpectedEOF // something was read
	}
	return io.EOF
}

// passInterim tells OnInterim of the interim response in r, and empties r.
func (r *Response) passInterim() {
	if r.OnInterim != nil && r.StatusCode() != StatusContinue {
		r.OnInterim(&r.Header)
	}
	r.Header.m.ResetMessage()
}

// startError returns the error for a head whose reading failed with err. If no
// byte of the head was read, a time-out is ErrTimeout, and any other failure
// matches ended.
func startError(err, ended error) error {
	var nothing ErrNothingRead
	var bound interface{ Timeout() bool }
	switch {
	case err == io.EOF:
		return ended
	case !errors.As(err, &nothing):
		return err
	case errors.As(nothing.Unwrap(), &bound) && bound.Timeout():
		return ErrTimeout
	}
	return message.Known(ended, nothing.Unwrap())
}

// ReadBody reads the body that Header announces from br. It leaves the trailer
// section of a chunked body to Header.ReadTrailer, unless StreamBody makes the
// body a stream. maxBodySize has the same meaning as in ReadLimitBody.
func (r *Response) ReadBody(br *bufio.Reader, maxBodySize int) error {
	r.ResetBody()
	return r.readBody(br, message.ReaderLimits(br), maxBodySize)
}

// readBody is ReadBody for a response without a body. limits are those of the
// trailer section after a stream.
func (r *Response) readBody(br *bufio.Reader, limits h1.Limits, maxBodySize int) error {
	length := r.Header.ContentLength()
	r.setLimit(max(maxBodySize, 0))
	if r.StreamBody {
		if length == message.TooLong {
			return ErrBodyTooLarge
		}
		r.setStream(body.NewReader(br, &r.Header.m.Header, length, limits), length)
		return nil
	}
	err := r.readBuffered(br, length, maxBodySize)
	if length < -1 {
		r.Header.SetContentLength(len(r.buffered()))
		r.Header.SetConnectionClose()
	}
	return err
}

// Write writes the response to w and closes a body stream. It flushes w only
// while it writes a body stream of unknown length, and for ImmediateHeaderFlush.
//
// The body is left out with SkipBody and if the status forbids one. A stream of
// unknown length is sent chunked. If Header's protocol is HTTP/1.0, the stream
// is instead sent up to the end of the connection, with "Connection: close".
func (r *Response) Write(w *bufio.Writer) error {
	f, sendsBody := r.framing()
	h := &r.Header
	if err := h.m.WriteHead(w, h.m.AppendHead(h.m.HeadRoom(w), f)); err != nil {
		return r.endStream(err)
	}
	if r.streamed() == nil {
		if !sendsBody {
			return nil
		}
		return body.WriteContent(w, r.bodyBytes(), f.Length, &h.m.Header)
	}
	if r.ImmediateHeaderFlush {
		if err := w.Flush(); err != nil {
			return r.endStream(err)
		}
	}
	if !sendsBody {
		return r.endStream(nil)
	}
	return r.writeStream(w, f.Length, &h.m.Header)
}

// framing derives how the body is delimited and whether it is sent. It sets the
// state of Header accordingly.
func (r *Response) framing() (f message.Framing, sendsBody bool) {
	h := &r.Header
	f = message.Framing{CloseConnection: h.ConnectionClose()}
	if !h.m.OwnsDate {
		f.Date = max(clock.Nanos(), 1)
	}
	status := h.StatusCode()
	switch {
	case message.BodyForbidden(status):
		return h.m.Framing(), false
	case status == StatusResetContent: // RFC 9110 section 15.3.6
		h.SetContentLength(0)
		return f, false
	case r.streamed() != nil:
		r.settleLength(&h.m.Header)
		f.Length = int64(max(r.bodyLength(), -1))
	default:
		f.Length = int64(len(r.bodyBytes()))
		if f.Length == 0 && r.SkipBody {
			return h.m.Framing(), false // that of a response to GET, if it was set or read
		}
	}
	if h.m.HasTrailers() && !r.SkipBody && !h.m.IsHTTP10 {
		f.Length = -1
	}
	if f.Length == -1 && h.m.IsHTTP10 {
		f.Length = -2
	}
	h.SetContentLength(int(f.Length)) // -2 also closes the connection
	return f, !r.SkipBody
}

// WriteTo writes the response to w; see Write. It implements io.WriterTo.
func (r *Response) WriteTo(w io.Writer) (int64, error) { return message.WriteTo(w, r) }

// String is Request.String for a response.
func (r *Response) String() string { return message.String(r) }
