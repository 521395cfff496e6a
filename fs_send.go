package sluice

import (
	"math"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/conditional"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/files"
	"github.com/sluicehttp/sluice/internal/message"
)

// send answers with a file, with parts of it, or with 304, 412 or 416, as the
// request's conditions and ranges require. It releases f.
func (s *fileServer) send(ctx *RequestCtx, f *files.File) {
	defer f.Release()
	h := &ctx.Response.Header
	if s.varies(f) {
		h.m.AddVary(HeaderAcceptEncoding)
	}
	v := f.Validators(s.hasETags)
	if len(v.ETag) > 0 {
		h.m.SetKnown(field.ETag, v.ETag)
	}
	if v.HasModified {
		setLastModified(h, f, v.Modified)
	}
	if answerConditions(ctx, v) {
		return
	}
	h.SetContentType(f.ContentType())
	if coding := f.Encoding().ContentCoding(); coding != "" {
		h.SetContentEncoding(coding)
	}
	ctx.SetStatusCode(StatusOK)
	if s.hasRanges {
		h.m.SetKnown(field.AcceptRanges, textBytes)
		if s.sendRanges(ctx, f, v) {
			return
		}
	}
	sendSpan(ctx, f, conditional.Span{Length: f.Size()})
}

// answerConditions answers if the request's conditions exclude a 2xx, and
// reports whether it did.
func answerConditions(ctx *RequestCtx, v conditional.Validators) bool {
	switch ctx.Request.Header.m.Conditions(ctx.IsGet() || ctx.IsHead(), v) {
	case conditional.NotModified:
		// Not ctx.NotModified: fields that were set before, such as Cache-Control,
		// belong to this answer too (RFC 9110 section 15.4.5).
		ctx.Response.ResetBody()
		ctx.SetStatusCode(StatusNotModified)
		return true
	case conditional.PreconditionFailed:
		ctx.Error("", StatusPreconditionFailed)
		return true
	}
	return false
}

// textBytes is the only range unit.
var textBytes = []byte("bytes")

// setLastModified sets Last-Modified to modified, the Modified of its Validators.
func setLastModified(h *ResponseHeader, f *files.File, modified int64) {
	if modified == f.ModTime().Unix() {
		h.m.SetKnown(field.LastModified, f.LastModified())
		return
	}
	h.SetLastModified(time.Unix(modified, 0))
}

// sendRanges answers with the parts of f that the request asks for. It returns
// false if the whole file must be sent. Ranges apply to GET only (RFC 9110
// section 14.2).
func (s *fileServer) sendRanges(ctx *RequestCtx, f *files.File, v conditional.Validators) bool {
	h := &ctx.Request.Header
	value, ok := h.m.SingleLine(field.Range)
	if !ok || !ctx.IsGet() || !s.mayRange(h, f, v) {
		return false
	}
	var space [8]conditional.Span
	spans, verdict := conditional.ParseRange(space[:0], value, f.Size())
	var text [64]byte
	switch {
	case verdict == conditional.Unsatisfiable:
		ctx.Error("Range Not Satisfiable", StatusRequestedRangeNotSatisfiable)
		ctx.Response.Header.m.SetKnown(field.ContentRange, conditional.AppendUnsatisfied(text[:0], f.Size()))
	case verdict == conditional.Whole:
		return false
	case len(spans) == 1:
		ctx.SetStatusCode(StatusPartialContent)
		ctx.Response.Header.m.SetKnown(field.ContentRange, conditional.AppendContentRange(text[:0], spans[0], f.Size()))
		sendSpan(ctx, f, spans[0])
	case !f.IsSeekable():
		return false // each part would read the file from its beginning
	default:
		sendParts(ctx, f, spans)
	}
	return true
}

// mayRange evaluates If-Range (RFC 9110 section 13.1.5).
func (s *fileServer) mayRange(h *RequestHeader, f *files.File, v conditional.Validators) bool {
	if h.m.Table.Index(field.IfRange) < 0 {
		return true
	}
	value, ok := h.m.SingleLine(field.IfRange)
	if !ok || len(value) == 0 {
		return false
	}
	date, isDate := message.UnixDate(value)
	// A date is a strong validator only if the file cannot have had another
	// content within that second (section 8.8.2.2), and not for encodings of a
	// file, which share the date (section 8.8.1). A client that accepts none of
	// the encodings has received the bytes of the file itself.
	isStrong := clock.Coarse().Unix() > v.Modified+1 && (!s.varies(f) || s.choose(h) == files.Identity)
	return conditional.MayRange(value, date, isDate && isStrong, v)
}

// varies tells whether the answer depends on Accept-Encoding.
func (s *fileServer) varies(f *files.File) bool {
	return len(s.offers) > 0 && (f.Encoding() != files.Identity || files.IsEncodable(f.ContentType()))
}

// sendSpan makes a span of f the body.
func sendSpan(ctx *RequestCtx, f *files.File, span conditional.Span) {
	resp := &ctx.Response
	if ctx.IsHead() {
		resp.ResetBody()
		resp.Header.SetContentLength(streamLength(span.Length))
		resp.SkipBody = true
		return
	}
	if content, ok := f.Bytes(); ok {
		ctx.sendContent(content[span.Offset : span.Offset+span.Length])
		return
	}
	part, err := f.Part(span.Offset, span.Length)
	if err != nil {
		answerFailure(ctx, "cannot read a file", err)
		return
	}
	resp.SetBodyStream(fileBody{part}, streamLength(span.Length))
}

// sendContent makes content the body, as a stream, like that of every file.
// content must not change any more.
func (ctx *RequestCtx) sendContent(content []byte) {
	resp := &ctx.Response
	resp.ResetBody()
	ctx.content.Left = content
	resp.setStream(&ctx.content, len(content))
	resp.Header.SetContentLength(len(content))
}

// streamLength returns n as the length of a body stream, or -1 (unknown) if an
// int cannot hold it. The stream is then chunked.
func streamLength(n int64) int {
	if n > math.MaxInt {
		return -1
	}
	return int(n)
}

// fileBody is a part of a file as the body of a response. The server sends it
// without reading it, if it can.
type fileBody struct{ *files.Part }

// filePart implements fileSource.
func (b fileBody) filePart() (f *os.File, offset, size int64) {
	f, offset, size, _ = b.OSPart()
	return f, offset, size
}

// sendParts answers with several spans of f (RFC 9110 section 15.3.7.2).
func sendParts(ctx *RequestCtx, f *files.File, spans []conditional.Span) {
	body, err := f.Ranges(spans)
	if err != nil {
		answerFailure(ctx, "cannot read a file", err)
		return
	}
	ctx.SetStatusCode(StatusPartialContent)
	ctx.SetContentType("multipart/byteranges; boundary=" + body.Boundary)
	if body.Content != nil {
		ctx.sendContent(body.Content)
		return
	}
	ctx.Response.SetBodyStream(body, streamLength(body.Length))
}
