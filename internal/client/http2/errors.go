package http2

import (
	"errors"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// An Outcome tells how far a request that failed has come.
type Outcome uint8

const (
	// MaybeProcessed: the peer may have processed the request, or a part of it.
	MaybeProcessed Outcome = iota
	// Unsent: not a byte of the request was written.
	Unsent
	// Refused: the peer has answered REFUSED_STREAM (RFC 9113 section 8.7), or
	// HTTP_1_1_REQUIRED.
	Refused
	// Unprocessed: the stream is above the last one of the peer's GOAWAY (RFC 9113
	// section 6.8).
	Unprocessed
)

// IsSafe reports whether the peer has certainly not processed the request. Then any method
// may be sent again, on another connection.
func (o Outcome) IsSafe() bool { return o != MaybeProcessed }

// An Error is why Do or Read failed.
type Error struct {
	// Outcome is for a request that may be repeated.
	Outcome Outcome
	// Code is that of the peer's RST_STREAM or GOAWAY, or CodeNoError.
	Code h2.Code
	// Err is the cause: an *h2.Error for a response that violates the protocol,
	// an *h1.Error for fields that exceed a limit, os.ErrDeadlineExceeded, the cause of
	// the Context, the error of Source, of a method of Request or of the net.Conn, or an
	// error of this package. The end of the connection is io.EOF before the head of the
	// response, then io.ErrUnexpectedEOF.
	Err error
}

// Error describes the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Causes that are an Error's Err.
var (
	// ErrFull: as many streams are open as the peer admits.
	ErrFull = errors.New("sluice: http2: the connection has no room for another stream")
	// ErrGoingAway: the peer's GOAWAY ends the connection, or there is no number for
	// another stream.
	ErrGoingAway = errors.New("sluice: http2: the connection takes no new streams")
	// ErrReset: the peer has reset the stream. Error.Code has its reason.
	ErrReset = errors.New("sluice: http2: the peer has reset the stream")
	// ErrClosed: Conn.Close or Stream.Close was called.
	ErrClosed = errors.New("sluice: http2: closed")
	// ErrNoPing: the peer has sent nothing for PingTimeout after a PING.
	ErrNoPing = errors.New("sluice: http2: the peer does not answer")
)
