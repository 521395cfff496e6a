package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/files"
	"github.com/sluicehttp/sluice/internal/message"
)

// quickFlate is the level of gzip and deflate that CompressHandler uses. From 8 KiB
// on it takes 0.53 to 0.67 of the CPU time of level 6, for 5 to 12 % more bytes.
// zstd's default takes 0.55 to 0.73 of it, for the same bytes, give or take 2 %:
// go -C tools/bench run . ratios --table levels.
const quickFlate = 3

// CompressHandler returns a handler that calls h and encodes the body of the
// response with zstd, gzip or deflate, as Accept-Encoding requests (RFC 9110
// section 12.5.3). Among codings of equal weight it takes the first of these,
// which is the cheapest. It takes a coding that only "*" names only if identity
// is refused. The levels are such that encoding for each request is cheap:
// CompressZstdDefault for zstd, 3 for gzip and deflate.
//
// It never encodes responses that have a Content-Encoding or a digest of their
// content (Content-Digest, Repr-Digest, Digest, Content-MD5), parts (206),
// responses without a body, responses with Cache-Control: no-transform, and
// responses that h flushed or hijacked. Unless the client refuses identity, it
// does not encode types that do not compress well either, nor bodies of less
// than 200 bytes that are not body streams set by h.
//
// Responses that depend on Accept-Encoding have Vary: Accept-Encoding. Encoding
// makes a strong ETag weak. Streams are encoded while they are sent; a stream
// of unknown length is sent as its bytes arrive.
func CompressHandler(h RequestHandler) RequestHandler {
	return compressing(h, []compress.Offer{
		{Coding: compress.Zstd, Level: CompressZstdDefault},
		{Coding: compress.Gzip, Level: quickFlate}, {Coding: compress.Deflate, Level: quickFlate},
	})
}

// CompressHandlerLevel is CompressHandler with a level for gzip and deflate, which
// are preferred to zstd.
func CompressHandlerLevel(h RequestHandler, level int) RequestHandler {
	return compressing(h, []compress.Offer{
		{Coding: compress.Gzip, Level: level}, {Coding: compress.Deflate, Level: level}, {Coding: compress.Zstd, Level: CompressZstdDefault},
	})
}

// CompressHandlerBrotliLevel is CompressHandlerLevel with brotli, which is
// preferred to the other codings. otherLevel is the level for gzip and deflate.
// Brotli is for responses that a cache keeps: for each request it costs more than
// the other codings.
func CompressHandlerBrotliLevel(h RequestHandler, brotliLevel, otherLevel int) RequestHandler {
	return compressing(h, []compress.Offer{
		{Coding: compress.Brotli, Level: brotliLevel}, {Coding: compress.Gzip, Level: otherLevel},
		{Coding: compress.Deflate, Level: otherLevel}, {Coding: compress.Zstd, Level: CompressZstdDefault},
	})
}

// compressing returns a handler that calls h and encodes its response. offers
// are in the order of preference.
func compressing(h RequestHandler, offers []compress.Offer) RequestHandler {
	return func(ctx *RequestCtx) {
		h(ctx)
		// The head is already sent, or another response will be sent.
		if ctx.isFlushed() || ctx.leavesHTTP() || ctx.LastTimeoutErrorResponse() != nil {
			return
		}
		ctx.encodeResponse(offers)
	}
}

// encodeResponse encodes the body with the offer that the client prefers.
func (ctx *RequestCtx) encodeResponse(offers []compress.Offer) {
	r := &ctx.Response
	isHead := ctx.Request.Header.IsHead()
	content := compress.Content{Size: bodySizeForGET(r, isHead), IsStream: isUsersStream(r.streamed()), IsSkipped: r.SkipBody && !isHead}
	if offer, encodes := compress.Negotiate(ctx.Request.Header.head(), r.Header.head(), content, offers); encodes {
		r.encodeBody(offer.Coding, offer.Level)
	}
}

// isUsersStream reports whether a handler has set stream. The stream of a
// served file does not count: the answer to HEAD, which must match that to GET,
// has no stream.
func isUsersStream(stream io.Reader) bool {
	switch stream.(type) {
	case nil, *body.Memory, *files.Part:
		return false
	}
	return true
}

// bodySizeForGET returns the length of the body, < 0 if unknown. For HEAD a
// handler may announce the length without producing the body.
func bodySizeForGET(r *Response, isHead bool) int {
	size := r.bodyLength()
	if isHead && size == 0 && r.streamed() == nil {
		return max(r.Header.ContentLength(), 0)
	}
	return size
}

// encodeBody encodes any kind of body, and sets Content-Encoding.
func (r *Response) encodeBody(c compress.Coding, level int) {
	plain := r.bodyBytes()
	content, isContent := r.streamed().(*body.Memory)
	if isContent {
		plain = content.Left // remains valid after the stream is closed
	}
	switch {
	case r.streamed() != nil && !isContent:
		stream, size := r.takeStream(), r.bodyLength()
		if size >= 0 {
			stream = body.NewExact(stream, int64(size))
		}
		r.setStream(body.NewEncoding(stream, c, level, size < 0), -1)
		r.Header.SetContentLength(-1)
	case len(plain) == 0:
		// HEAD without a body: the encoded length is unknown.
		r.setStream(unfinishedBody{}, -1)
		r.Header.SetContentLength(-1)
	default:
		b := buf.Get(len(plain))
		b.B = compress.Append(b.B, plain, c, level)
		r.SetBody(b.B)
		b.Release()
	}
	r.Header.SetContentEncoding(c.Name())
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
	if len(h.ContentEncoding()) > 0 || !compress.IsCompressible(h.ContentType()) ||
		message.BodyForbidden(status) || status == StatusPartialContent {
		return
	}
	if r.streamed() == nil && len(r.bodyBytes()) < compress.Smallest {
		return
	}
	r.encodeBody(c, level)
	h.head().AddVary(HeaderAcceptEncoding)
}
