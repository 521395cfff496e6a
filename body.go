package sluice

import (
	"bufio"
	"bytes"
	"io"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// messageBody is the content of a message, with the methods that Request and Response
// share. At most one of raw, stream and memory has content; setting one drops
// the others.
type messageBody struct {
	// memory holds the buffered body, nil if there was none. Before a change, call
	// hold. Copies by assignment share it, so that they see one length.
	memory *bodyBuffer
	owner  field.Owner // of memory, which is not nil if it Owns
	// hasOthers: raw, stream, failure or form may be set.
	hasOthers bool
	// raw is a body that the caller of SetBodyRaw owns.
	raw []byte
	// stream is read when the message is written. streamSize is its length, < 0 if
	// unknown.
	stream     io.Reader
	streamSize int
	// limit bounds the bytes collected from stream, and the output of decoding any
	// kind of body; 0 is no limit. It is set when a message is received and stays
	// until the body is reset: a body that is decoded in steps, and set again
	// after each step, is limited in each step.
	limit int
	// streamWriter produces the same body as stream, for a writer that can call it
	// in place. It is nil once stream was handed out or read.
	streamWriter StreamWriter
	// writer writes stream.
	writer body.StreamWriter
	// failure is the error of collecting stream; content returns it until another
	// body is set.
	failure error
	// form is the parsed multipart form of a request.
	form *formData
}

// bodyBuffer is the memory of a buffered body. The message owns it and reuses it for the
// next body. It grows with the bytes that arrive or are written, never with an announced
// length.
type bodyBuffer struct{ bytes []byte }

// buffered returns the buffered body.
func (b *messageBody) buffered() []byte {
	if b.memory == nil {
		return nil
	}
	return b.memory.bytes
}

// hold makes memory what a change of the buffered body needs: not nil, and the message's own
// in one that was copied by assignment.
func (b *messageBody) hold() {
	if !b.owner.Owns() { // the first change
		b.claim()
	}
}

func (b *messageBody) claim() {
	if b.owner.IsCopy() || b.memory == nil {
		b.memory = &bodyBuffer{bytes.Clone(b.buffered())}
	}
}

// leave drops the memory of the buffered body.
func (b *messageBody) leave() { b.memory, b.owner = nil, field.Owner{} }

// bodyPoolLimits holds the limits of SetBodySizePoolLimit.
var bodyPoolLimits struct{ request, response buf.Limit }

// SetBodySizePoolLimit sets how many bytes of memory a Request and a Response
// retain for their next body when they are reset or released. Larger buffers go
// to the garbage collector. A negative limit means no limit. The default is 256
// KiB.
func SetBodySizePoolLimit(reqBodyLimit, respBodyLimit int) {
	bodyPoolLimits.request.Set(reqBodyLimit)
	bodyPoolLimits.response.Set(respBodyLimit)
}

// burstBody is the size from which a body's memory counts as released
// (buf.LetGo) when the message is reset: many handlers may have held such a
// body at once.
const burstBody = 32 << 10

// clear removes the body and its limit. It drops memory over the limit unless
// keep is set.
func (b *messageBody) clear(keep bool, limit *buf.Limit) {
	b.limit = 0
	if b.hasOthers || b.memory != nil {
		b.clearAll(keep, limit)
	}
}

func (b *messageBody) clearAll(keep bool, limit *buf.Limit) {
	if !b.isBuffered() { // drop, of which the call would cost more than the rest
		b.dropOthers()
	}
	if b.memory == nil {
		return
	}
	if b.owner.IsCopy() {
		b.leave()
		return
	}
	if held := cap(b.memory.bytes); !keep {
		if held >= burstBody {
			buf.LetGo(held)
		}
		if !limit.Allows(held) {
			b.leave()
			return
		}
	}
	b.memory.bytes = b.memory.bytes[:0]
}

// rawBody returns the body of SetBodyRaw, nil if there is none.
func (b *messageBody) rawBody() []byte { return b.raw }

// takeBuffer returns the memory of the buffered body, which b gives up.
func (b *messageBody) takeBuffer() *bodyBuffer {
	m := b.memory
	b.leave()
	return m
}

// giveBuffer makes m, which may be nil, the memory of the buffered body.
func (b *messageBody) giveBuffer(m *bodyBuffer) {
	b.leave()
	if m != nil {
		b.memory = m
		b.owner.Moved()
	}
}

// exchange swaps the bodies of two messages.
func (b *messageBody) exchange(other *messageBody) {
	*b, *other = *other, *b
	b.giveBuffer(b.memory)
	other.giveBuffer(other.memory)
}

// drop removes every body but a buffered one.
func (b *messageBody) drop() {
	if !b.isBuffered() {
		b.dropOthers()
	}
}

// isBuffered reports whether the body, which may be empty, is no more than memory.
func (b *messageBody) isBuffered() bool { return !b.hasOthers }

// dropOthers is drop for a body that is not buffered.
func (b *messageBody) dropOthers() {
	b.raw, b.failure, b.hasOthers = nil, nil, false
	_ = b.closeStream(nil) // there is no caller to return the error to
	b.removeForm()
}

// Body returns the body, nil or empty if there is none. The message owns the
// bytes. They are valid until the body is changed, or the message is reset or
// released.
//
// Body reads a body stream into memory; the body is then no stream any more. A
// server with StreamRequestBody logs once that this happens. If reading fails,
// the returned body is the text of the error: use BodyStream or BodyWriteTo if
// errors matter. If the multipart form of a request was read from a stream,
// Body returns that form, encoded again.
func (b *messageBody) Body() []byte {
	if b.isBuffered() { // the usual case
		return b.buffered()
	}
	if s, ok := b.stream.(*requestStream); ok {
		s.warn()
	}
	content, err := b.content()
	if err != nil {
		b.hold()
		m := b.memory
		m.bytes = append(m.bytes[:0], err.Error()...)
		return m.bytes
	}
	return content
}

// content is Body for callers that can return an error. It returns the same
// error until another body is set.
func (b *messageBody) content() ([]byte, error) {
	if b.form != nil && b.form.isBody {
		return b.marshalForm(), nil
	}
	if b.stream != nil {
		if b.failure = b.bufferStream(); b.failure != nil {
			b.empty()
		}
	}
	return b.bodyBytes(), b.failure
}

// bodyBytes returns the body without copying it; empty if it is a stream.
func (b *messageBody) bodyBytes() []byte {
	if b.raw != nil {
		return b.raw
	}
	return b.buffered()
}

// SetBody makes a copy of p the body.
func (b *messageBody) SetBody(p []byte) {
	b.drop()
	b.hold()
	m := b.memory
	m.bytes = append(m.bytes[:0], p...)
}

// empty makes the buffered body empty.
func (b *messageBody) empty() {
	b.hold()
	m := b.memory
	m.bytes = m.bytes[:0]
}

// SetBodyString makes s the body.
func (b *messageBody) SetBodyString(s string) { b.SetBody(ascii.Bytes(s)) }

// SetBodyRaw makes p itself the body, without a copy. Do not change p until the
// message is written, reset or released.
func (b *messageBody) SetBodyRaw(p []byte) {
	b.drop()
	if len(b.buffered()) > 0 {
		b.empty()
	}
	b.raw, b.hasOthers = p, true
}

// AppendBody appends a copy of p to the body. It drops a body stream.
func (b *messageBody) AppendBody(p []byte) {
	if !b.isBuffered() {
		b.own()
	}
	b.hold()
	m := b.memory
	m.bytes = append(m.bytes, p...)
}

// AppendBodyString appends s to the body. It drops a body stream.
func (b *messageBody) AppendBodyString(s string) { b.AppendBody(ascii.Bytes(s)) }

// setLimit bounds what a received body may collect and decode to; 0 is no limit.
func (b *messageBody) setLimit(n int) { b.limit = n }

// bound returns the limit for the output of decoding: limit if it is positive,
// otherwise the limit with which the message was received. 0 is no limit. All
// code that decodes a body, or parses one as a form, calls it.
func (b *messageBody) bound(limit int) int {
	if limit > 0 {
		return limit
	}
	return b.limit
}

// readBuffered reads the body from br; see body.Append.
func (b *messageBody) readBuffered(br *bufio.Reader, length, maxBodySize int) (err error) {
	b.hold()
	m := b.memory
	m.bytes, err = body.Append(m.bytes, br, length, maxBodySize)
	return err
}

// receive appends received bytes, up to the limit.
func (b *messageBody) receive(p []byte) error {
	if b.limit > 0 && len(b.buffered())+len(p) > b.limit {
		return ErrBodyTooLarge
	}
	b.appendBodyBytes(p)
	return nil
}

// appendBodyBytes appends received bytes.
func (b *messageBody) appendBodyBytes(p []byte) {
	b.hold()
	m := b.memory
	m.bytes = append(m.bytes, p...)
}

// own makes the body a buffered one, to which bytes may be appended.
func (b *messageBody) own() {
	switch {
	case b.raw != nil:
		b.hold()
		m := b.memory
		m.bytes = append(m.bytes[:0], b.raw...)
	case b.form != nil && b.form.isBody:
		b.marshalForm()
	}
	b.drop()
}

// SwapBody makes p the body, without a copy, and returns the previous body. The
// message now owns p, and the caller owns the returned slice. A body stream is
// read into memory as by Body.
func (b *messageBody) SwapBody(p []byte) []byte {
	if b.raw != nil {
		b.own() // the caller of SetBodyRaw owns raw
	}
	b.hold() // a copy by assignment returns memory of its own
	old := b.Body()
	b.drop()
	b.hold() // Body may have taken other memory
	b.memory.bytes = p
	return old
}

// BodyWriter returns a writer that appends to the body. It never returns an
// error, and is valid as long as the message.
func (b *messageBody) BodyWriter() io.Writer { return (*bodyAppender)(b) }

// bodyAppender is the io.Writer and io.StringWriter of BodyWriter.
type bodyAppender messageBody

// Write implements io.Writer.
func (b *bodyAppender) Write(p []byte) (int, error) {
	(*messageBody)(b).AppendBody(p)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (b *bodyAppender) WriteString(s string) (int, error) {
	(*messageBody)(b).AppendBodyString(s)
	return len(s), nil
}

// ReleaseBody releases the memory of the body to the garbage collector if it is
// larger than size bytes; the body is then empty. A body stream stays. Call it
// before a message with an unusually large body is released to a pool.
func (b *messageBody) ReleaseBody(size int) {
	b.raw = nil
	if cap(b.buffered()) > size {
		if b.stream == nil {
			b.drop()
		}
		b.leave()
	}
}

// BodyWriteTo writes the body to w. It reads a body stream to its end and
// closes it. It returns the first error of the stream or w, also that of a stream that
// Body has read.
func (b *messageBody) BodyWriteTo(w io.Writer) error {
	if b.form != nil && b.form.isBody {
		return WriteMultipartForm(w, b.form.form, b.form.boundary)
	}
	if b.stream != nil {
		err := body.Copy(w, b.takeStream())
		return b.closeStream(err)
	}
	if b.failure != nil { // the bytes are its text
		return b.failure
	}
	_, err := w.Write(b.bodyBytes())
	return err
}

// copyBodyTo copies a body that is not a stream to dst, which has no body.
func (b *messageBody) copyBodyTo(dst *messageBody) {
	dst.limit = b.limit
	content := b.bodyBytes()
	if b.form != nil && b.form.isBody {
		content = b.marshalForm()
	}
	if len(content) > 0 {
		dst.hold()
		m := dst.memory
		m.bytes = append(m.bytes[:0], content...)
	}
}
