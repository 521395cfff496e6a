package fasthttpadaptor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
)

var (
	errHandlerReturned  = errors.New("sluice: response used after its handler returned")
	errHijackAfterFlush = errors.New("sluice: Hijack after Flush")
)

// responseWriter is the http.ResponseWriter of one request.
type responseWriter struct {
	exchange *exchange
	ctx      *sluice.RequestCtx
	header   http.Header
	shown    []shownField // what header began with
	trailers []string     // canonical names of the announced trailer fields
	length   int64        // Content-Length that the handler has set; -1: none
	written  int64
	state    writerState
	status   int             // from stateImplicit on
	stream   *responseStream // set by Flush; the handler then does not own the response
	hijacked *hijackedConn
	isHead   bool // the method is HEAD; from stateImplicit on
	sentHint bool // a 103 has put Link fields into the head
	// hasTrailers: a trailer section can be sent, and trailers is valid.
	hasTrailers bool
	isChunked   bool // the handler has asked for it: the head does not have length
	sniffs      bool // Content-Type follows from the first bytes; from stateImplicit on
	isOver      atomic.Bool
}

// writerState reports whether the head is complete, and why.
type writerState int

const (
	stateHeader   writerState = iota // the handler may set fields
	stateImplicit                    // Write or Flush made the head
	stateExplicit                    // WriteHeader made the head
)

// Header implements http.ResponseWriter. The first call shows the fields that the
// RequestCtx has.
func (w *responseWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
		if w.state == stateHeader && !w.isOver.Load() { // else they are not the handler's any more
			w.showFields(&w.ctx.Response.Header)
		}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter. Of the interim statuses it sends
// only 103, with the Link fields. The server itself sends 100. WriteHeader
// ignores the others, except 101, which is final.
func (w *responseWriter) WriteHeader(status int) {
	if w.isOver.Load() || w.hijacked != nil || w.state != stateHeader {
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	switch {
	case status == http.StatusEarlyHints:
		w.sendHints()
	case status >= 200 || status == http.StatusSwitchingProtocols:
		w.ctx.SetStatusCode(status)
		w.commit()
		w.state = stateExplicit
	}
}

// sendHints sends a 103 response. It ignores errors: writing the response
// returns them again.
func (w *responseWriter) sendHints() {
	h := &w.ctx.Response.Header
	links := w.Header()["Link"]
	w.remove(h, "Link")
	for _, link := range links {
		h.Add("Link", link)
	}
	w.sentHint = true
	_ = w.ctx.EarlyHints()
}

// commit copies the fields that the handler has set into the response. Later
// changes have no effect, except those of trailer fields.
func (w *responseWriter) commit() {
	w.state = stateImplicit
	w.length = -1
	w.status, w.isHead = w.ctx.Response.StatusCode(), w.ctx.IsHead()
	h := &w.ctx.Response.Header
	h.SetNoDefaultContentType(true)
	if w.status == http.StatusNotModified {
		defer h.Del("Content-Type") // of content that is not sent, as in net/http
	}
	if w.sentHint {
		h.Del("Link") // copyFields adds the handler's current Link fields
	}
	w.hasTrailers = w.mayHaveTrailers()
	if w.header != nil {
		w.copyFields(h)
	}
	w.sniffs = w.maySniff(h)
}

// maySniff reports whether no Content-Type, Content-Encoding or, with HTTP/1.1,
// Transfer-Encoding was set, as net/http wants it to sniff.
func (w *responseWriter) maySniff(h *sluice.ResponseHeader) bool {
	_, isSet := w.header["Content-Type"] // a nil value disables sniffing, too
	isCoded := len(h.ContentEncoding()) > 0 || w.ctx.ProtoMajor() == 1 && w.header.Get("Transfer-Encoding") != ""
	return w.bodyAllowed() && !isSet && !isCoded && len(h.ContentType()) == 0
}

// bodyAllowed reports whether the status lets the response have a body.
func (w *responseWriter) bodyAllowed() bool {
	return w.status >= 200 && w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// prepare checks whether n bytes may be written, and counts them.
func (w *responseWriter) prepare(n int) error {
	switch {
	case w.isOver.Load():
		return errHandlerReturned
	case w.hijacked != nil:
		return http.ErrHijacked
	}
	if w.state == stateHeader {
		w.commit()
	}
	switch {
	case n == 0:
		return nil
	case !w.bodyAllowed():
		return http.ErrBodyNotAllowed
	}
	w.written += int64(n) // too many bytes count too: finish must see that the length is wrong
	if w.length >= 0 && w.written > w.length {
		return http.ErrContentLength
	}
	return nil
}

// Write implements io.Writer.
func (w *responseWriter) Write(p []byte) (int, error) {
	if err := w.prepare(len(p)); err != nil {
		return 0, err
	}
	if w.stream == nil {
		w.ctx.Response.AppendBody(p)
	} else if err := w.stream.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (w *responseWriter) WriteString(s string) (int, error) {
	if w.stream != nil {
		return w.Write([]byte(s))
	}
	if err := w.prepare(len(s)); err != nil {
		return 0, err
	}
	w.ctx.Response.AppendBodyString(s)
	return len(s), nil
}

// ReadFrom implements io.ReaderFrom.
func (w *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	b := acquireCopyBuffer()
	defer releaseCopyBuffer(b)
	return io.CopyBuffer(plainWriter{w}, plainReader{r}, b[:])
}

// plainWriter hides ReadFrom, which would otherwise call itself.
type plainWriter struct{ w *responseWriter }

// Write implements io.Writer.
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }

// plainReader hides a WriteTo, which could call ReadFrom.
type plainReader struct{ io.Reader }

// Flush implements http.Flusher.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController. The first call makes the body
// a stream and makes the RequestHandler return.
func (w *responseWriter) FlushError() error {
	if err := w.prepare(0); err != nil {
		return err
	}
	switch {
	case w.stream != nil:
		return w.stream.send(nil)
	case !w.bodyAllowed():
		return nil
	}
	w.sniff()
	resp := &w.ctx.Response
	first := bytes.Clone(resp.Body())
	w.stream = newResponseStream(w.exchange, first, w.lengthOfStream())
	w.exchange.source.after.Store(w.stream)
	_ = w.ctx.Done() // after Done, the RequestCtx is not reused: the handler may still use it
	resp.ImmediateHeaderFlush = len(first) == 0
	resp.SetBodyStream(w.stream, int(w.lengthOfStream()))
	w.exchange.ready.Done()
	return nil
}

// lengthOfStream returns the number of bytes that the head announces, -1 if it does not.
func (w *responseWriter) lengthOfStream() int64 {
	if w.isChunked {
		return -1
	}
	return w.length
}

// sniff sets Content-Type from the first bytes, as net/http does.
func (w *responseWriter) sniff() {
	if !w.sniffs {
		return
	}
	if body := w.ctx.Response.Body(); len(body) > 0 {
		w.ctx.Response.Header.SetContentType(http.DetectContentType(body))
	}
}

// finish completes the response when the handler has returned without Flush.
func (w *responseWriter) finish() {
	if w.hijacked != nil {
		return
	}
	if w.state == stateHeader {
		w.commit()
	}
	w.sniff()
	w.copyTrailers(&w.ctx.Response.Header)
	if w.length <= 0 || w.length == w.written || !w.bodyAllowed() {
		return
	}
	if w.isChunked {
		w.ctx.SetConnectionClose() // as net/http: such a handler is wrong, but its response is complete
		return
	}
	if w.isHead {
		w.ctx.Response.ResetBody() // the head has the handler's length, not that of what was written
		return
	}
	// The handler has not written Content-Length bytes. A stream that is shorter
	// makes writing fail, so that the client does not accept the response as
	// complete.
	rest := bytes.Clone(w.ctx.Response.Body())
	w.ctx.Response.ImmediateHeaderFlush = true // the head goes out even if no byte follows
	w.ctx.SetBodyStream(bytes.NewReader(rest), int(w.length))
}

// SetReadDeadline implements the method that http.ResponseController calls.
func (w *responseWriter) SetReadDeadline(t time.Time) error {
	if w.isOver.Load() {
		return errHandlerReturned
	}
	if w.stream != nil {
		w.stream.awaitReader()
	}
	return w.ctx.SetReadDeadline(t)
}

// SetWriteDeadline implements the method that http.ResponseController calls.
func (w *responseWriter) SetWriteDeadline(t time.Time) error {
	if w.isOver.Load() {
		return errHandlerReturned
	}
	if w.stream != nil {
		w.stream.setWriteDeadline(t)
		return nil
	}
	return w.ctx.SetWriteDeadline(t)
}

// EnableFullDuplex implements the method that http.ResponseController calls. It
// has no effect: the request may always be read while the response is written.
func (w *responseWriter) EnableFullDuplex() error { return nil }
