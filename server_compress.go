package sluice

import (
	"io"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/field"
)

// CompressHandler returns a handler that calls h and encodes the body of the
// response with gzip, deflate or zstd, as Accept-Encoding requests (RFC 9110
// section 12.5.3). Among codings of equal weight it takes the first of these.
// It takes a coding that only "*" names only if identity is refused.
//
// It never encodes responses that have a Content-Encoding, parts (206),
// responses without a body, responses with Cache-Control: no-transform, and
// responses that h flushed or hijacked. Unless the client refuses identity, it
// does not encode types that do not compress well either, nor bodies of less
// than 200 bytes that are not body streams set by h.
//
// Responses that depend on Accept-Encoding have Vary: Accept-Encoding. Encoding
// makes a strong ETag weak. Streams are encoded while they are sent; a stream
// of unknown length is sent as its bytes arrive.
func CompressHandler(h RequestHandler) RequestHandler {
	return CompressHandlerLevel(h, CompressDefaultCompression)
}

// CompressHandlerLevel is CompressHandler with a level for gzip and deflate.
func CompressHandlerLevel(h RequestHandler, level int) RequestHandler {
	return compressing(h, []codingOffer{
		{compress.Gzip, level}, {compress.Deflate, level}, {compress.Zstd, CompressZstdDefault},
	})
}

// CompressHandlerBrotliLevel is CompressHandlerLevel with brotli, which is
// preferred to the other codings. otherLevel is the level for gzip and deflate.
func CompressHandlerBrotliLevel(h RequestHandler, brotliLevel, otherLevel int) RequestHandler {
	return compressing(h, []codingOffer{
		{compress.Brotli, brotliLevel}, {compress.Gzip, otherLevel},
		{compress.Deflate, otherLevel}, {compress.Zstd, CompressZstdDefault},
	})
}

// codingOffer is a coding that a handler offers.
type codingOffer struct {
	coding compress.Coding
	level  int
}

// compressing returns a handler that calls h and encodes its response. offers
// are in the order of preference.
func compressing(h RequestHandler, offers []codingOffer) RequestHandler {
	return func(ctx *RequestCtx) {
		h(ctx)
		// The head is already sent, or another response will be sent.
		if ctx.hasFlushed || ctx.hijackHandler != nil || ctx.timeoutResponse.Load() != nil {
			return
		}
		ctx.encodeResponse(offers)
	}
}

// encodeResponse encodes the body with the offer that the client prefers.
func (ctx *RequestCtx) encodeResponse(offers []codingOffer) {
	r := &ctx.Response
	if !mayEncode(r) {
		if r.StatusCode() == StatusPartialContent && isCompressible(r.Header.ContentType()) {
			addVary(&r.Header, HeaderAcceptEncoding) // as the 200 would (RFC 9110 section 15.3.7)
		}
		return
	}
	var wish acceptEncoding
	wish.readFields(&ctx.Request.Header)
	offer, found := wish.choose(offers)
	isHead := ctx.Request.Header.IsHead()
	if r.StatusCode() != StatusNotModified && !isWorthEncoding(r, isHead, found && wish.refusesIdentity()) {
		return
	}
	addVary(&r.Header, HeaderAcceptEncoding)
	if !found {
		return
	}
	weakenETag(&r.Header)
	r.Header.Del(HeaderAcceptRanges) // a range would select other bytes
	if r.StatusCode() != StatusNotModified {
		r.encodeBody(offer.coding, offer.level)
	}
}

// mayEncode reports whether the response is subject to negotiation. A 304 is:
// it has the fields of the response that it replaces (RFC 9110 section 15.4.5).
func mayEncode(r *Response) bool {
	h := &r.Header
	switch status := h.StatusCode(); {
	case status == StatusNotModified:
		return len(h.ContentEncoding()) == 0 && isCompressible(h.ContentType())
	case bodyForbidden(status), status == StatusResetContent, status == StatusPartialContent:
		return false
	}
	return len(h.ContentEncoding()) == 0 && !hasListMember(h.Peek(HeaderCacheControl), "no-transform")
}

// isWorthEncoding reports whether there is a body that compresses well; with
// isForced any body will do.
func isWorthEncoding(r *Response, isHead, isForced bool) bool {
	if r.SkipBody && !isHead {
		return false
	}
	size := bodySizeForGET(r, isHead)
	if isForced {
		return size != 0
	}
	isSmall := size < minCompressSize && !isUsersStream(r.stream) || size == 0
	return !isSmall && isCompressible(r.Header.ContentType())
}

// isUsersStream reports whether a handler has set stream. The stream of a
// served file does not count: the answer to HEAD, which must match that to GET,
// has no stream.
func isUsersStream(stream io.Reader) bool {
	switch stream.(type) {
	case nil, *contentStream, fileBody:
		return false
	}
	return true
}

// bodySizeForGET returns the length of the body, < 0 if unknown. For HEAD a
// handler may announce the length without producing the body.
func bodySizeForGET(r *Response, isHead bool) int {
	if r.stream != nil {
		return r.streamSize
	}
	size := len(r.bodyBytes())
	if isHead && size == 0 {
		return max(r.Header.contentLength, 0)
	}
	return size
}

// encodeBody encodes any kind of body, and sets Content-Encoding.
func (r *Response) encodeBody(c compress.Coding, level int) {
	plain := r.bodyBytes()
	content, isContent := r.stream.(*contentStream)
	if isContent {
		plain = content.left // remains valid after the stream is closed
	}
	switch {
	case r.stream != nil && !isContent:
		isPassedOn := r.streamSize < 0
		r.stream = newEncodingStream(r.takeStream(), c, level, isPassedOn)
		r.streamSize = -1
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
	r.Header.SetContentEncoding(codingName(c))
}

// weakenETag makes a strong ETag weak, because it does not identify the encoded
// bytes (RFC 9110 section 8.8.3.3).
func weakenETag(h *ResponseHeader) {
	tag := h.Peek(HeaderETag)
	if len(tag) == 0 || tag[0] != '"' {
		return
	}
	var room [96]byte
	h.SetBytesV(HeaderETag, append(append(room[:0], "W/"...), tag...))
}

// hasListMember reports whether a comma-separated list has a member.
func hasListMember(list []byte, member string) bool {
	for found := len(list) > 0; found; {
		var m []byte
		m, list, found = cutByte(list, ',')
		if ascii.EqualFold(ascii.TrimOWS(m), member) {
			return true
		}
	}
	return false
}

// codingWeight is the weight of a coding in Accept-Encoding: the weight in
// thousandths plus 1, so that the zero value means that the coding is not
// named.
type codingWeight int

const codingRefused codingWeight = 1

// acceptEncoding is a parsed Accept-Encoding. The zero value is that of a
// request without one.
type acceptEncoding struct {
	codings       [compress.Zstd + 1]codingWeight
	identity, any codingWeight
}

// readFields adds all Accept-Encoding fields of a request, in any spelling of
// the name.
func (a *acceptEncoding) readFields(h *RequestHeader) {
	var lines [4][]byte
	for _, line := range appendFieldLines(lines[:0], h, field.AcceptEncoding) {
		a.read(line)
	}
}

// read adds the members of a field value. It skips those with a malformed
// weight.
func (a *acceptEncoding) read(value []byte) {
	for found := true; found; {
		var member []byte
		member, value, found = cutByte(value, ',')
		name, parameter, hasParameter := cutByte(member, ';')
		weight := codingWeight(1001)
		if hasParameter {
			var ok bool
			if weight, ok = parseWeight(parameter); !ok {
				continue
			}
		}
		name = ascii.TrimOWS(name)
		if c, ok := codingByName(name); ok {
			a.codings[c] = weight
		} else if string(name) == "*" {
			a.any = weight
		} else if ascii.EqualFold(name, "identity") {
			a.identity = weight
		}
	}
}

// parseWeight parses "q=" and a weight (RFC 9110 section 12.4.2).
func parseWeight(b []byte) (weight codingWeight, ok bool) {
	b = ascii.TrimOWS(b)
	if len(b) < 3 || len(b) > 7 || b[0]|0x20 != 'q' || b[1] != '=' || len(b) > 3 && b[3] != '.' {
		return 0, false
	}
	thousandths, unit := 0, 1000
	for i, c := range b[2:] {
		if i == 1 {
			continue // the dot
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		thousandths += int(c-'0') * unit
		unit /= 10
	}
	return codingWeight(thousandths + 1), thousandths <= 1000
}

// refusesIdentity reports whether the client refuses a body without encoding.
func (a *acceptEncoding) refusesIdentity() bool {
	return a.identity == codingRefused || a.identity == 0 && a.any == codingRefused
}

// choose returns the offer with the highest weight, the first among equals. It
// finds none if the client prefers identity. If a client lists codings and does
// not list identity, it prefers any of them to identity.
func (a *acceptEncoding) choose(offers []codingOffer) (best codingOffer, found bool) {
	bound := codingRefused
	for _, offer := range offers {
		weight := a.codings[offer.coding]
		if weight == 0 && a.refusesIdentity() {
			weight = a.any
		}
		if weight > bound {
			best, bound, found = offer, weight, true
		}
	}
	identity := a.identity
	if identity == 0 {
		identity = a.any
	}
	return best, found && bound >= identity
}
