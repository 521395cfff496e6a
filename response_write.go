package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/transfer"
)

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
	if r.stream == nil {
		if !sendsBody {
			return nil
		}
		return transfer.WriteContent(w, r.bodyBytes(), f.Length, &h.m.Header)
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
	case r.stream != nil:
		r.settleLength(&h.m.Header)
		f.Length = int64(max(r.streamSize, -1))
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
func (r *Response) WriteTo(w io.Writer) (int64, error) { return transfer.WriteTo(w, r) }

// String is Request.String for a response.
func (r *Response) String() string { return transfer.String(r) }
