package fasthttpadaptor

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
)

// requestBody is the body of an http.Request that was converted.
type requestBody struct {
	ctx      *sluice.RequestCtx
	request  *http.Request                  // gets the trailer fields
	stream   io.Reader                      // nil: the body is data
	isOver   atomic.Bool                    // after Close, or when the handler has returned
	after    atomic.Pointer[responseStream] // a Read of stream waits for its reader
	atEnd    bool                           // the end was read
	endsRead bool                           // Close ends a Read that waits; cut is called while ctx is valid

	mu   sync.Mutex // no Read copies from data after cut has returned
	data []byte
}

// fillBody sets the body of r, and the fields that describe it.
func fillBody(r *http.Request, ctx *sluice.RequestCtx, b *requestBody) {
	b.ctx = ctx
	length := ctx.Request.Header.ContentLength()
	b.stream = ctx.RequestBodyStream()
	if b.stream == nil {
		b.data = ctx.Request.Body()
	}
	switch {
	case length == -1:
		r.ContentLength = -1
		if r.ProtoMajor < 2 {
			r.TransferEncoding = []string{"chunked"}
		}
	case b.stream != nil:
		if form, ok := b.stream.(*bytes.Reader); ok { // a multipart form that was parsed and is written again
			length = form.Len()
		}
		r.ContentLength = int64(max(length, -1))
	default:
		r.ContentLength = int64(len(b.data))
	}
	if b.stream == nil { // the body is complete
		b.takeTrailers(r)
		b.atEnd = true
	}
	if b.stream == nil && len(b.data) == 0 && length != -1 {
		r.Body = http.NoBody
		return
	}
	r.Body = b
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.isOver.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.read(p)
	if err == io.EOF && !b.atEnd {
		b.atEnd = true
		b.takeTrailers(b.request)
	}
	return n, err
}

func (b *requestBody) read(p []byte) (int, error) {
	if b.stream != nil {
		if s := b.after.Load(); s != nil {
			s.awaitReader()
		}
		return b.stream.Read(p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOver.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// takeTrailers fills the Trailer of r, whose values are known at the end of the
// body.
func (b *requestBody) takeTrailers(r *http.Request) {
	addSection(&r.Trailer, b.ctx.Request.Header.TrailerHeader())
}

// addSection adds the fields of a trailer section to h. Peek by name could find a field of
// the head that has the same name.
func addSection(h *http.Header, section []byte) {
	for line := range bytes.Lines(section) {
		name, value, isField := bytes.Cut(line, []byte(":"))
		if !isField {
			continue
		}
		if *h == nil {
			*h = http.Header{}
		}
		h.Add(string(name), string(bytes.TrimSpace(value)))
	}
}

// Close implements io.Closer. The server discards what was not read. With HTTP/2, it ends
// a Read that waits, as in net/http.
func (b *requestBody) Close() error {
	if b.endsRead {
		b.endRead()
	}
	b.cut()
	return nil
}

// endRead makes a Read that waits for the client return, unless the handler has returned.
func (b *requestBody) endRead() {
	if s := b.after.Load(); s != nil {
		s.awaitReader()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOver.Load() {
		_ = b.ctx.SetReadDeadline(time.Unix(1, 0)) // fails if the request was given up
	}
}

// cut ends the use of the RequestCtx's memory. It waits for a Read that copies
// from data.
func (b *requestBody) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOver.Store(true)
}

// maxHijackDrain bounds what is discarded of a body before a connection is
// hijacked.
const maxHijackDrain = 256 << 10

// drain discards the rest of a stream, so that the next byte of the connection
// is the first one after the request.
func (b *requestBody) drain() error {
	if b.stream == nil {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(b.stream, maxHijackDrain+1))
	if err == nil && n > maxHijackDrain {
		err = sluice.ErrBodyTooLarge
	}
	return err
}
