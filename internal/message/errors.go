package message

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of malformed heads. The root package exports and describes them.
var (
	ErrReadingResponseHeaders        = errors.New("sluice: cannot read the response's head")
	ErrSmallReadBuffer               = errors.New("sluice: the head does not fit the read buffer")
	ErrMissingRequestMethod          = errors.New("sluice: the request line has no method")
	ErrUnsupportedRequestMethod      = errors.New("sluice: unsupported request method")
	ErrExtraWhitespaceInRequestLine  = errors.New("sluice: extra whitespace in the request line")
	ErrDuplicateContentLength        = errors.New("sluice: more than one Content-Length")
	ErrUnsupportedTransferEncoding   = errors.New("sluice: unsupported Transfer-Encoding")
	ErrNonNumericChars               = errors.New("sluice: a number contains something else than digits")
	ErrResponseFirstLineMissingSpace = errors.New("sluice: the status line has no space after the version")
	ErrUnexpectedStatusCodeChar      = errors.New("sluice: unexpected character after the status code")
)

// KnownError matches an exported variable, Known, and the more precise Reason.
type KnownError struct{ Known, Reason error }

// Known returns a KnownError.
func Known(known, reason error) error { return KnownError{known, reason} }

// Error returns both texts.
func (e KnownError) Error() string {
	known, reason := e.Known.Error(), strings.TrimPrefix(e.Reason.Error(), "sluice: ")
	if strings.HasSuffix(known, reason) {
		return known
	}
	return known + " (" + reason + ")"
}

// Unwrap returns both errors.
func (e KnownError) Unwrap() []error { return []error{e.Known, e.Reason} }

// ErrNothingRead says that a reader has failed before the first byte of a message.
type ErrNothingRead struct{ cause error }

// Error returns the text of the cause.
func (e ErrNothingRead) Error() string { return CauseText(e.cause, "sluice: nothing was read") }

// Unwrap returns the error of the reader, or nil if it is unknown.
func (e ErrNothingRead) Unwrap() error { return e.cause }

// ErrSmallBuffer says that a head does not fit the read buffer.
type ErrSmallBuffer struct{ cause error }

// SmallBuffer returns an *ErrSmallBuffer because of err.
func SmallBuffer(err error) error { return &ErrSmallBuffer{KnownError{ErrSmallReadBuffer, err}} }

// Error returns the text of the cause.
func (e ErrSmallBuffer) Error() string { return CauseText(e.cause, ErrSmallReadBuffer.Error()) }

// Unwrap returns the cause, or nil if it is unknown.
func (e ErrSmallBuffer) Unwrap() error { return e.cause }

// ErrBrokenChunk says that chunked content is malformed.
type ErrBrokenChunk struct{ cause error }

// BrokenChunk returns an ErrBrokenChunk because of err.
func BrokenChunk(err error) error { return ErrBrokenChunk{err} }

// Error returns the text of the cause.
func (e ErrBrokenChunk) Error() string { return CauseText(e.cause, "sluice: malformed chunk") }

// Unwrap returns what is malformed, or nil if it is unknown.
func (e ErrBrokenChunk) Unwrap() error { return e.cause }

// ErrBodyStreamWritePanic says that a body stream panicked.
type ErrBodyStreamWritePanic struct{ cause error }

// StreamPanic returns an *ErrBodyStreamWritePanic for a panic with the value v.
func StreamPanic(v any) error {
	if err, ok := v.(error); ok {
		return &ErrBodyStreamWritePanic{fmt.Errorf("sluice: panic while writing a body stream: %w", err)}
	}
	return &ErrBodyStreamWritePanic{fmt.Errorf("sluice: panic while writing a body stream: %v", v)}
}

// Error returns the panic's value as text.
func (e ErrBodyStreamWritePanic) Error() string {
	return CauseText(e.cause, "sluice: a body stream panicked")
}

// Unwrap returns the panic's value as an error, or nil if it is unknown.
func (e ErrBodyStreamWritePanic) Unwrap() error { return e.cause }

// CauseText returns the text of cause. It returns text if cause is nil, as in
// the zero value that callers pass to errors.As.
func CauseText(cause error, text string) string {
	if cause == nil {
		return text
	}
	return cause.Error()
}
