package sluice

import (
	"bufio"

	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/message"
)

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
	if len(h.ContentEncoding()) > 0 || !compress.IsCompressible(h.ContentType()) ||
		message.BodyForbidden(status) || status == StatusPartialContent {
		return
	}
	if r.stream == nil && len(r.bodyBytes()) < compress.Smallest {
		return
	}
	r.encodeBody(c, level)
	h.m.AddVary(HeaderAcceptEncoding)
}
