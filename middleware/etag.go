package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/conditional"
)

// ETag is a middleware that gives answers to GET and HEAD with status 200 an ETag, and answers
// 304 without the body to clients that have it (If-None-Match, RFC 9110 section 13.1.2), and
// 412 to those that want another one (If-Match, section 13.1.1). It saves bytes, not the
// handler's work. If-Match of other methods is the handler's: here, it would be too late.
//
// The tag is strong, and a hash of the body: all workers and machines make the same one, and
// nobody can find two bodies that share it. A tag that the handler sets, which may be weak, is
// compared instead, also for a stream, which is then closed. Other bodies that are streams, and
// those that were flushed in parts or are empty, get none.
// A compressing handler outside makes the tag weak, as it has to.
func ETag(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		h(ctx)
		resp := &ctx.Response
		if ctx.LastTimeoutErrorResponse() != nil || ctx.HeadSent() || ctx.Hijacked() ||
			resp.StatusCode() != sluice.StatusOK || !ctx.IsGet() && !ctx.IsHead() {
			return
		}
		tag := resp.Header.Peek(sluice.HeaderETag)
		if len(tag) == 0 {
			if resp.IsBodyStream() {
				return
			}
			body := resp.Body()
			if len(body) == 0 {
				return
			}
			var text [2 + 2*tagBytes]byte
			resp.Header.SetBytesV(sluice.HeaderETag, appendTag(text[:0], body))
			tag = resp.Header.Peek(sluice.HeaderETag)
		}
		conditions := conditional.Conditions{
			IsGetOrHead: true,
			IfMatch:     slices.Clone(upgrade.PeekAll(ctx, &ctx.Request.Header, sluice.HeaderIfMatch)), // its memory is used again
			IfNoneMatch: upgrade.PeekAll(ctx, &ctx.Request.Header, sluice.HeaderIfNoneMatch),
		}
		switch conditions.Evaluate(conditional.Validators{ETag: tag}) {
		case conditional.NotModified:
			makeNotModified(resp)
		case conditional.PreconditionFailed:
			ctx.Error("", sluice.StatusPreconditionFailed)
		}
	}
}

// makeNotModified makes a 200 the 304 for it, without the fields of the content that is not
// sent (RFC 9110 section 15.4.5).
func makeNotModified(resp *sluice.Response) {
	h := &resp.Header
	// A compressing handler outside must give the 304 the ETag and the Vary that the 200 would
	// have. It knows the content by its type: without one it takes the default, which it encodes.
	isLong := resp.IsBodyStream() && h.ContentLength() != 0
	if !resp.IsBodyStream() {
		isLong = len(resp.Body()) >= compress.Smallest
	}
	isEncoded := isLong && compress.IsCompressible(h.ContentType()) && len(h.ContentEncoding()) == 0
	h.SetNoDefaultContentType(!isEncoded)
	resp.ResetBody()
	for _, name := range [...]string{
		sluice.HeaderContentType, sluice.HeaderContentLength, sluice.HeaderContentEncoding, sluice.HeaderContentLanguage, sluice.HeaderLastModified,
	} {
		h.Del(name)
	}
	resp.SetStatusCode(sluice.StatusNotModified)
}

// tagBytes is how much of the hash is used: enough that no collision can be found.
const tagBytes = 16

// appendTag appends the tag of a body.
func appendTag(dst, body []byte) []byte {
	sum := sha256.Sum256(body)
	dst = append(dst, '"')
	dst = hex.AppendEncode(dst, sum[:tagBytes])
	return append(dst, '"')
}
