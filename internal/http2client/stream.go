package http2client

import (
	"context"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h2"
)

// A Request is a request and its response. Its methods are called with the Conn locked,
// one after the other, on any goroutine that uses the Conn: they must neither block nor
// call the Conn or the Stream. None is called after Do has returned, but
// TrailerReceived for a streamed body until Read returns io.EOF or an error, or Close
// returns.
type Request interface {
	// AppendHead appends the pseudo-fields and fields of the request, in one block.
	AppendHead(dst []byte, e *h2.Encoder) []byte
	// AppendTrailer appends the trailer fields. It is called after the body if
	// Stream.HasTrailer.
	AppendTrailer(dst []byte, e *h2.Encoder) []byte
	// Fields returns the empty table that the next head of the response is decoded to.
	Fields() *field.Table
	// HeadReceived is called with a valid head. An interim one has a status below 200;
	// its results have no meaning but err, and the table is emptied after the call. With
	// isLast, the response is complete. Otherwise a body may follow: isStreamed makes Do
	// return, and the body is read with Stream.Read. An error resets the stream, and is
	// the cause of Do's.
	HeadReceived(head *h2.Head, isLast bool) (isStreamed bool, err error)
	// BodyReceived gets the next part of a body that is not streamed, and must copy it.
	// An error resets the stream, and is the cause of Do's.
	BodyReceived(p []byte) error
	// TrailerReceived gets the trailer fields, without those that may not be there. t
	// belongs to the Conn.
	TrailerReceived(t *field.Table)
}

// A Stream carries one request and its response. The caller sets the exported fields,
// calls Conn.Do, and may use it again when Do has returned, or after Close if the body
// is streamed. They must not change meanwhile. The zero value is ready. A Stream must
// not be copied after its first use.
type Stream struct {
	Request Request
	// Content is the body, if Source is nil. It is not copied: it must not change until
	// Do returns or, if the response is streamed, until Close returns.
	Content []byte
	// Source is the body if it is not nil. A goroutine reads it. If the response is
	// complete, or has failed, before the end, the rest is not read. If Read blocks then,
	// a Source that is an io.Closer is closed. Do, or Close if the response is streamed,
	// returns after the last Read has returned.
	Source io.Reader
	// Length is how many bytes of Source are sent; negative: all. If Source has less, the
	// request fails with ErrSourceLength.
	Length int64
	// HasTrailer: trailer fields follow the body.
	HasTrailer bool
	// IsHead: the method is HEAD, so the response has no body.
	IsHead bool
	// IsConnect: the method is CONNECT, so Content-Length has no meaning in a response
	// of success.
	IsConnect bool
	// Context ends the request, or a streamed body until Close; nil: it does not end.
	Context context.Context
	// Deadline ends Do, in clock.Nanos; 0: never. For Read, see SetDeadline.
	Deadline int64
	// WriteTimeout bounds the time from Do until the request is written, ReadTimeout
	// that from then until the response is complete or streamed; 0: no bound.
	WriteTimeout, ReadTimeout time.Duration

	conn *Conn
	id   uint32
}

// Read reads a streamed body. It returns io.EOF after a complete one, otherwise an
// *Error. It may be called concurrently with Close.
func (s *Stream) Read(p []byte) (int, error) { return 0, io.EOF }

// SetDeadline ends the Reads of a streamed body at a time in clock.Nanos, with
// os.ErrDeadlineExceeded; 0: never. After that, the stream is reset.
func (s *Stream) SetDeadline(at int64) {}

// Close ends a streamed body. If it is not complete, or the request was not sent
// completely, the stream is reset. It must be called for every streamed body; only the
// first call has an effect.
func (s *Stream) Close() error { return nil }

// ID returns the number of the stream, after Do; 0: none was opened.
func (s *Stream) ID() uint32 { return s.id }
