// Package streams has what a HostClient and a protocol whose connections carry many requests at
// once know of each other: a request and its response as a stream, and for a protocol outside of
// the root module, HTTP/3, also where its connections come from.
package streams

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// A Request is a request and its response. Root implements it. Its methods are called one after
// the other, on any goroutine: they must neither block nor call the connection or the Stream;
// InterimReceived is the exception. None is called after Do has returned, but TrailerReceived
// for a streamed body until Read returns io.EOF or an error, or Close returns.
type Request interface {
	// AppendHead appends the pseudo-fields and fields of the request, in one list.
	AppendHead(dst []byte, e message.FieldEncoder) []byte
	// AppendTrailer appends the trailer fields. It is called after the body if
	// Params.HasTrailer.
	AppendTrailer(dst []byte, e message.FieldEncoder) []byte
	// Fields returns the empty table that the next head of the response is decoded to.
	Fields() *field.Table
	// HeadReceived is called with a valid head. An interim one has a status below 200;
	// its results have no meaning but err, and the table is emptied after the call: see
	// InterimReceived. With isLast, the response is complete. Otherwise a body may
	// follow: isStreamed makes Do return, and the body is read with Read. An error
	// resets the stream, and is the cause of Do's.
	HeadReceived(head *fieldlist.Head, isLast bool) (isStreamed bool, err error)
	// BodyReceived gets the next part of a body that is not streamed, and must copy it.
	// An error resets the stream, and is the cause of Do's.
	BodyReceived(p []byte) error
	// TrailerReceived gets the trailer fields, without those that may not be there. t
	// belongs to the caller.
	TrailerReceived(t *field.Table)
	// InterimReceived is called for each interim head, in their order and before Do
	// returns, if Params.WantsInterims. It is called without a lock, on the goroutine of
	// Do: it may block, and then other streams go on. It must not retain head and t.
	InterimReceived(head *fieldlist.Head, t *field.Table)
}

// Params are what the user of a stream sets before Do. They must not change until Do returns or,
// if the response is streamed, until Close returns.
type Params struct {
	Request Request
	// Content is the body, if Source is nil. It is not copied.
	Content []byte
	// Source is the body if it is not nil. A goroutine reads it. If the response is
	// complete, or has failed, before the end, the rest is not read. If Read blocks then,
	// a Source that is an io.Closer is closed. Do, or Close if the response is streamed,
	// returns after the last Read has returned. After body.ErrWithheld, nothing more is sent
	// and the stream goes on: the response is complete without the rest.
	Source io.Reader
	// Length is how many bytes of Source are sent; negative: all. If Source has less, the
	// request fails with ErrSourceLength.
	Length int64
	// HasTrailer: trailer fields may follow the body.
	HasTrailer bool
	// IsHead: the method is HEAD, so the response has no body.
	IsHead bool
	// IsConnect: the request is an extended CONNECT (RFC 8441 section 4, RFC 9220). Do waits until
	// the peer has said whether it admits that; if not, the cause is ErrNoConnect. A 2xx
	// response, which Request.HeadReceived must make a streamed one, makes the stream a
	// tunnel. There is no body, and WriteTimeout has no effect.
	IsConnect bool
	// WantsInterims makes Do call Request.InterimReceived.
	WantsInterims bool
	// Context ends the request, or a streamed body until Close; nil: it does not end.
	Context context.Context
	// Deadline ends Do, in clock.Nanos; 0: never.
	Deadline int64
	// WriteTimeout bounds the time from Do until the request is written, ReadTimeout
	// that from then until the response is complete or streamed, and then each Read; 0:
	// no bound. Time between the Reads does not count.
	WriteTimeout, ReadTimeout time.Duration
}

// MaxInterims is how many interim heads a response may have.
const MaxInterims = 16

// Causes of failures of all protocols.
var (
	// ErrSourceLength: Source has less bytes than Length.
	ErrSourceLength = errors.New("sluice: the body is shorter than announced")
	// ErrNoConnect: the peer does not admit extended CONNECT (RFC 8441 section 3, RFC 9220
	// section 3).
	ErrNoConnect = errors.New("sluice: the peer does not admit extended CONNECT")
	// ErrInterim: a response has more than MaxInterims interim heads.
	ErrInterim = errors.New("sluice: too many interim responses")
)

// A Failure is what a failed Do means for sending the request again.
type Failure struct {
	// IsSafe: the peer has certainly not processed the request. Any method may be sent again.
	IsSafe bool
	// IsUnsent: not a byte of the request was written. It implies IsSafe.
	IsUnsent bool
	// IsRead: all of the request was passed on for writing. The failure came later.
	IsRead bool
	// NeedsHTTP1: the peer wants the request over HTTP/1.1.
	NeedsHTTP1 bool
}
