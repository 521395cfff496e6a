package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/clock"
)

// bodyForbidden tells whether a response with that status has no body, whatever
// its head announces (RFC 9112 section 6.3).
func bodyForbidden(status int) bool {
	return status < 200 && status >= 100 || status == StatusNoContent || status == StatusNotModified
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
	if err := h.writeHead(w, h.appendHead(h.headRoom(w), f)); err != nil {
		return r.closeIfStream(err)
	}
	if r.stream == nil {
		if !sendsBody {
			return nil
		}
		return writeContent(w, r.bodyBytes(), f.length, &h.header)
	}
	if r.ImmediateHeaderFlush {
		if err := w.Flush(); err != nil {
			return r.endStream(err)
		}
	}
	if !sendsBody {
		return r.endStream(nil)
	}
	return r.writeStream(w, f.length, &h.header)
}

func (r *Response) closeIfStream(err error) error {
	if r.stream == nil {
		return err
	}
	return r.endStream(err)
}

// framing derives how the body is delimited and whether it is sent. It sets the
// state of Header accordingly.
func (r *Response) framing() (f bodyFraming, sendsBody bool) {
	h := &r.Header
	f = bodyFraming{date: max(clock.Nanos(), 1), closeConnection: h.ConnectionClose()}
	status := h.StatusCode()
	switch {
	case bodyForbidden(status):
		return h.framing(), false
	case status == StatusResetContent: // RFC 9110 section 15.3.6
		h.SetContentLength(0)
		return f, false
	case r.stream != nil:
		f.length = int64(max(r.streamSize, -1))
		f.closeConnection = f.closeConnection || r.streamSize < -1
	default:
		f.length = int64(len(r.bodyBytes()))
		if f.length == 0 && r.SkipBody {
			// Content-Length is the length that the body of a response to GET
			// would have. It is unknown unless it was set.
			if !h.hasLength {
				f.length, f.omitDefaultType = -2, true
				return f, false
			}
			f.length = int64(max(h.contentLength, -2))
		}
	}
	if h.hasTrailers() && !r.SkipBody && !h.isHTTP10 {
		f.length = -1
	}
	if f.length == -1 && h.isHTTP10 {
		f.length = -2
		f.closeConnection = true
	}
	h.SetContentLength(int(f.length))
	return f, !r.SkipBody
}

// WriteTo writes the response to w; see Write. It implements io.WriterTo.
func (r *Response) WriteTo(w io.Writer) (int64, error) { return writeMessage(w, r) }

// String returns the response in wire format, or the text of the error of
// writing it. It reads and closes a body stream.
func (r *Response) String() string { return messageString(r) }
