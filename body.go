package sluice

import (
	"io"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/buf"
)

// body is the content of a message, and the methods that Request and Response
// have in common. At most one of raw, stream and bytes has content; setting one
// drops the others.
type body struct {
	// bytes is the buffered body. Its memory belongs to the message and is kept
	// for the next body; it grows with what arrives or is written, never by what
	// is announced.
	bytes []byte
	// raw is a body that belongs to the caller of SetBodyRaw.
	raw []byte
	// stream is read when the message is written. streamSize is its length, < 0
	// if that is not known.
	stream     io.Reader
	streamSize int
	// limit bounds what is collected from stream, and what any kind of body is
	// decoded to; 0 is no limit. It is set for what was received and stays until
	// the body is reset: a body that is decoded in steps, and set again after
	// each, is bounded in each.
	limit int
	// streamWriter produces the same body as stream, for a writer that can let it
	// write in place. It is nil once stream was handed out or read.
	streamWriter StreamWriter
	// sized is what a stream of known length writes itself to.
	sized sizedWriter
	// failure is why stream could not be collected; content returns it until there
	// is another body.
	failure error
	// form is the parsed multipart form of a request.
	form *formData
}

// bodyPoolLimits holds what SetBodySizePoolLimit was given, as storedLimit
// returns it.
var bodyPoolLimits struct{ request, response atomic.Int64 }

// defaultBodyPoolLimit is the size up to which a message keeps the memory of
// its body for the next one. A larger body is rare enough, or large enough, for
// its allocation not to matter; kept, it would be held by every message in use.
const defaultBodyPoolLimit = 256 << 10

// SetBodySizePoolLimit sets how many bytes of memory a Request and a Response
// may keep for their next body when they are reset or released; larger buffers
// are left to the garbage collector. A negative limit keeps all. By default
// 256 KiB are kept.
func SetBodySizePoolLimit(reqBodyLimit, respBodyLimit int) {
	bodyPoolLimits.request.Store(storedLimit(reqBodyLimit))
	bodyPoolLimits.response.Store(storedLimit(respBodyLimit))
}

// storedLimit maps a limit so that the zero value is defaultBodyPoolLimit: to -1
// for none, otherwise to one more than the limit.
func storedLimit(n int) int64 {
	if n < 0 {
		return -1
	}
	return int64(n) + 1
}

// mayKeep tells whether a buffer of n bytes is within the limit.
func mayKeep(n int, limit *atomic.Int64) bool {
	switch l := limit.Load(); {
	case l < 0:
		return true
	case l == 0:
		return n <= defaultBodyPoolLimit
	default:
		return int64(n) < l
	}
}

// burstBody is the size from which a body's memory counts as let go when the
// message is reset: many may have been in handlers at the same time.
const burstBody = 32 << 10

// clear removes the body and its limit. Memory over the limit is given up unless keep is set.
func (b *body) clear(keep bool, limit *atomic.Int64) {
	b.drop()
	b.limit = 0
	if held := cap(b.bytes); held > 0 && !keep {
		if held >= burstBody {
			buf.LetGo(held)
		}
		if !mayKeep(held, limit) {
			b.bytes = nil
			return
		}
	}
	b.bytes = b.bytes[:0]
}

// drop removes every body but a buffered one.
func (b *body) drop() {
	b.raw, b.failure = nil, nil
	if b.stream != nil {
		_ = b.CloseBodyStream() // nobody is there to be told
	}
	if b.form != nil {
		b.removeForm()
	}
}

// Body returns the body; nil or empty if there is none. The bytes belong to the
// message and are valid until its body is changed, or it is reset or released.
//
// A body stream is read into memory, and is then no stream any more; the log of a
// server with StreamRequestBody is told once that this happens. If that
// fails, the error's text is the body: use BodyStream or BodyWriteTo where
// errors matter. The body of a request whose multipart form was read from a
// stream is that form, written again.
func (b *body) Body() []byte {
	if b.stream == nil && b.form == nil && b.failure == nil { // most
		return b.bodyBytes()
	}
	if s, ok := b.stream.(*requestStream); ok {
		s.warn()
	}
	content, err := b.content()
	if err != nil {
		b.bytes = append(b.bytes[:0], err.Error()...)
		return b.bytes
	}
	return content
}

// content is Body for callers that can return an error. It returns the same one
// until there is another body.
func (b *body) content() ([]byte, error) {
	if b.form != nil && b.form.isBody {
		return b.marshalForm(), nil
	}
	if b.stream != nil {
		if b.failure = b.bufferStream(); b.failure != nil {
			b.bytes = b.bytes[:0]
		}
	}
	return b.bodyBytes(), b.failure
}

// bodyBytes returns the body without copying it; empty if it is a stream.
func (b *body) bodyBytes() []byte {
	if b.raw != nil {
		return b.raw
	}
	return b.bytes
}

// SetBody makes a copy of p the body.
func (b *body) SetBody(p []byte) {
	b.drop()
	b.bytes = append(b.bytes[:0], p...)
}

// SetBodyString makes s the body.
func (b *body) SetBodyString(s string) {
	b.drop()
	b.bytes = append(b.bytes[:0], s...)
}

// SetBodyRaw makes p itself the body, without copying it: it must not be
// changed until the message is written, reset or released.
func (b *body) SetBodyRaw(p []byte) {
	b.drop()
	b.bytes = b.bytes[:0]
	b.raw = p
}

// AppendBody appends a copy of p to the body. A body stream is dropped.
func (b *body) AppendBody(p []byte) {
	b.own()
	b.bytes = append(b.bytes, p...)
}

// AppendBodyString appends s to the body. A body stream is dropped.
func (b *body) AppendBodyString(s string) {
	b.own()
	b.bytes = append(b.bytes, s...)
}

// appendBodyBytes appends what was received.
func (b *body) appendBodyBytes(p []byte) { b.bytes = append(b.bytes, p...) }

// own makes the body a buffered one that may be appended to.
func (b *body) own() {
	switch {
	case b.raw != nil:
		b.bytes = append(b.bytes[:0], b.raw...)
	case b.form != nil && b.form.isBody:
		b.marshalForm()
	}
	b.drop()
}

// SwapBody makes p the body, without copying it, and returns the body that was
// there before. Ownership changes with them: p is the message's now, and the
// returned slice is the caller's. A body stream is read into memory as by Body.
func (b *body) SwapBody(p []byte) []byte {
	if b.raw != nil {
		b.own() // raw is another one's
	}
	old := b.Body()
	b.drop()
	b.bytes = p
	return old
}

// BodyWriter returns a writer that appends to the body. It is valid as long as
// the message, and never returns an error.
func (b *body) BodyWriter() io.Writer { return (*bodyAppender)(b) }

// bodyAppender is the io.Writer and io.StringWriter of BodyWriter.
type bodyAppender body

// Write implements io.Writer.
func (b *bodyAppender) Write(p []byte) (int, error) {
	(*body)(b).AppendBody(p)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (b *bodyAppender) WriteString(s string) (int, error) {
	(*body)(b).AppendBodyString(s)
	return len(s), nil
}

// ReleaseBody gives the memory of the body to the garbage collector if it is
// more than size bytes; the body is then empty. A body stream stays. Call it
// before the message is released to a pool, where it is known that so large a
// body is an exception.
func (b *body) ReleaseBody(size int) {
	b.raw = nil
	if cap(b.bytes) > size {
		if b.stream == nil {
			b.drop()
		}
		b.bytes = nil
	}
}

// BodyWriteTo writes the body to w. A body stream is read to its end and
// closed; the error of either side is returned.
func (b *body) BodyWriteTo(w io.Writer) error {
	if b.form != nil && b.form.isBody {
		return WriteMultipartForm(w, b.form.form, b.form.boundary)
	}
	if b.stream != nil {
		err := copyStream(w, b.takeStream())
		return b.closeStream(err)
	}
	_, err := w.Write(b.bodyBytes())
	return err
}

// copyBodyTo makes dst a copy of a body that is not a stream. dst has no body.
func (b *body) copyBodyTo(dst *body) {
	dst.limit = b.limit
	if b.form != nil && b.form.isBody {
		dst.bytes = append(dst.bytes[:0], b.marshalForm()...)
		return
	}
	dst.bytes = append(dst.bytes[:0], b.bodyBytes()...)
}
