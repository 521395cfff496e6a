package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/field"
)

// minCompressSize is the smallest size, in bytes, of a body that is compressed.
const minCompressSize = 200

// compressibleTypes are prefixes of media types whose content gets smaller.
var compressibleTypes = [...]string{
	"text/", "application/", "font/", "multipart/", "image/svg", "image/x-icon",
}

// WriteGzip is Write with the body compressed by gzip. It does not compress a
// body that is shorter than 200 bytes, has a Content-Encoding already, is a part
// of a representation (RFC 9110 section 15.3.7), or is of a type that does not
// get smaller. A body stream is compressed whatever its length. WriteGzip
// changes the response: it keeps the compressed body, Content-Encoding and Vary.
func (r *Response) WriteGzip(w *bufio.Writer) error {
	return r.WriteGzipLevel(w, CompressDefaultCompression)
}

// WriteGzipLevel is WriteGzip with the given level of compression.
func (r *Response) WriteGzipLevel(w *bufio.Writer, level int) error {
	r.compressBody(compress.Gzip, level)
	return r.Write(w)
}

// WriteDeflate is WriteGzip with the coding deflate, which is the zlib format.
func (r *Response) WriteDeflate(w *bufio.Writer) error {
	return r.WriteDeflateLevel(w, CompressDefaultCompression)
}

// WriteDeflateLevel is WriteDeflate with the given level of compression.
func (r *Response) WriteDeflateLevel(w *bufio.Writer, level int) error {
	r.compressBody(compress.Deflate, level)
	return r.Write(w)
}

// compressBody compresses the body under the conditions of WriteGzip.
func (r *Response) compressBody(c compress.Coding, level int) {
	h := &r.Header
	status := h.StatusCode()
	if len(h.ContentEncoding()) > 0 || !isCompressible(h.ContentType()) ||
		bodyForbidden(status) || status == StatusPartialContent {
		return
	}
	if r.stream == nil && len(r.bodyBytes()) < minCompressSize {
		return
	}
	r.encodeBody(c, level)
	addVary(h, HeaderAcceptEncoding)
}

func isCompressible(contentType []byte) bool {
	for _, prefix := range compressibleTypes {
		if len(contentType) >= len(prefix) && ascii.EqualFold(contentType[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// addVary adds a field name to Vary (RFC 9110 section 12.5.5). It changes the
// head even if Vary is announced as a trailer field, because caches read it from
// the head.
func addVary(h *ResponseHeader, name string) {
	vary := h.table.Get(field.Vary)
	if len(vary) == 0 {
		h.table.Set(field.Vary, ascii.Bytes(name))
		return
	}
	for rest, found := vary, true; found; {
		var member []byte
		member, rest, found = cutByte(rest, ',')
		if member = ascii.TrimOWS(member); string(member) == "*" || ascii.EqualFold(member, name) {
			return
		}
	}
	h.table.Set(field.Vary, []byte(string(vary)+","+name))
}

// encodingStream is a body stream that encodes another stream while it is read.
// It owns source.
type encodingStream struct {
	source  io.Reader
	to      io.WriterTo      // source, if its WriteTo may be used
	encoder *compress.Writer // nil at the end
	in      *buf.Buffer
	out     []byte // encoded and not yet read: out[start:]
	start   int
	flushes bool // encoded output is flushed after each Read or Write of the source
	err     error
}

func newEncodingStream(source io.Reader, c compress.Coding, level int, flushes bool) *encodingStream {
	e := &encodingStream{source: source, flushes: flushes}
	if to, ok := bodyWriterTo(source, true); ok {
		e.to = to
	}
	e.encoder = compress.NewWriter((*bytesAppender)(&e.out), c, level)
	return e
}

// Read implements io.Reader.
func (e *encodingStream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for e.start == len(e.out) {
		if e.err != nil {
			return 0, e.err
		}
		e.out, e.start = e.out[:0], 0
		e.err = e.encodeMore()
	}
	n := copy(p, e.out[e.start:])
	e.start += n
	return n, nil
}

// SupportsBodyWriteTo implements BodyWriterTo.
func (e *encodingStream) SupportsBodyWriteTo() bool { return e.to != nil }

// WriteTo implements io.WriterTo.
func (e *encodingStream) WriteTo(w io.Writer) (int64, error) {
	if e.to == nil || e.err != nil {
		return io.Copy(w, struct{ io.Reader }{e})
	}
	out := encodingWriter{e: e, w: w}
	if _, e.err = e.to.WriteTo(&out); e.err == nil {
		e.err = e.endEncoding()
	}
	if err := out.passOn(); e.err == nil {
		e.err = err
	}
	err := e.err
	if err == nil {
		e.err = io.EOF
	}
	return out.n, err
}

// encodingWriter encodes what is written to it, and writes the result to w.
type encodingWriter struct {
	e *encodingStream
	w io.Writer
	n int64 // bytes that w has accepted
}

// Write implements io.Writer.
func (o *encodingWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:min(len(p), n+streamCopySize)]
		n += len(part)
		if _, err = o.e.encoder.Write(part); err == nil && o.e.flushes {
			err = o.e.encoder.Flush()
		}
		if err == nil {
			err = o.passOn()
		}
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (o *encodingWriter) WriteString(s string) (int, error) { return o.Write(ascii.Bytes(s)) }

// passOn writes the encoded bytes to w.
func (o *encodingWriter) passOn() error {
	e := o.e
	if e.start == len(e.out) {
		return nil
	}
	n, err := o.w.Write(e.out[e.start:])
	o.n += int64(n)
	e.out, e.start = e.out[:0], 0
	return err
}

// encodeMore encodes what one Read of the source returns.
func (e *encodingStream) encodeMore() error {
	if e.in == nil {
		e.in = buf.Get(streamCopySize)
	}
	in := e.in.B[:cap(e.in.B)]
	n, err := e.source.Read(in)
	if n > 0 {
		if _, err := e.encoder.Write(in[:n]); err != nil {
			return err
		}
		if e.flushes && err == nil {
			return e.encoder.Flush()
		}
	}
	if err == io.EOF {
		if err := e.endEncoding(); err != nil {
			return err
		}
	}
	return err
}

// endEncoding writes the end of the format, and releases encoder and buffer.
func (e *encodingStream) endEncoding() error {
	if e.in != nil {
		e.in.Release()
		e.in = nil
	}
	if e.encoder == nil {
		return nil
	}
	encoder := e.encoder
	e.encoder = nil
	return encoder.Close()
}

// CloseWithError implements ReadCloserWithError: it closes the source.
func (e *encodingStream) CloseWithError(err error) error {
	encodeErr := e.endEncoding()
	source := body{stream: e.source}
	if err := source.closeStream(err); err != nil {
		return err
	}
	return encodeErr
}

var (
	_ ReadCloserWithError = (*encodingStream)(nil)
	_ BodyWriterTo        = (*encodingStream)(nil)
)
