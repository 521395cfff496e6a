package websocket

import (
	"errors"
	"fmt"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

var (
	// ErrClosed is returned by methods of a Conn that has ended or is closing.
	ErrClosed = errors.New("sluice: websocket: the connection is closed")
	// ErrFull is returned by TryWrite if MaxPending bytes wait already.
	ErrFull = errors.New("sluice: websocket: too many bytes wait for the peer")
	// ErrNoLoop is returned by Read and Reader for a connection that has callbacks.
	ErrNoLoop = errors.New("sluice: websocket: Read is for connections of Endpoint.Accept")
	// ErrReading is returned by Read if another goroutine is reading.
	ErrReading = errors.New("sluice: websocket: another goroutine reads from the connection")
	// ErrKind is returned for a message that is neither Text nor Binary.
	ErrKind = errors.New("sluice: websocket: a message is Text or Binary")
	// ErrCode is returned by Close for a code or a reason that must not be sent.
	ErrCode = errors.New("sluice: websocket: a Close frame cannot have this code or reason")
)

// A Code says why a connection is closed (RFC 6455 section 7.4).
type Code uint16

// The codes of RFC 6455 section 7.4.1 and of the registry of IANA. Applications use those
// from 4000 to 4999.
const (
	CodeNormal         = Code(ws.CodeNormal)         // 1000
	CodeGoingAway      = Code(ws.CodeGoingAway)      // 1001: the server shuts down, or the browser leaves the page
	CodeProtocolError  = Code(ws.CodeProtocolError)  // 1002
	CodeUnsupported    = Code(ws.CodeUnsupported)    // 1003: data of this kind is not accepted
	CodeNone           = Code(ws.CodeNone)           // 1005: the Close frame had no code
	CodeAbnormal       = Code(ws.CodeAbnormal)       // 1006: there was no Close frame
	CodeInvalidText    = Code(ws.CodeInvalidText)    // 1007: a text is not UTF-8
	CodePolicy         = Code(ws.CodePolicy)         // 1008
	CodeTooLarge       = Code(ws.CodeTooLarge)       // 1009
	CodeInternal       = Code(ws.CodeInternal)       // 1011
	CodeServiceRestart = Code(ws.CodeServiceRestart) // 1012
	CodeTryAgain       = Code(ws.CodeTryAgain)       // 1013: the server is overloaded, or the peer too slow
)

// A CloseError says how a connection was closed. A callback may return one to close its
// connection.
type CloseError struct {
	Code   Code   // CodeNone and CodeAbnormal are never sent as such; 0: not valid
	Reason string // at most 123 bytes of UTF-8
	// IsRemote reports whether the peer has closed.
	IsRemote bool
	// Cause is the violation that the code answers; nil: none.
	Cause error
}

// Error implements error.
func (e *CloseError) Error() string {
	by := "by this side"
	if e.IsRemote {
		by = "by the peer"
	}
	if e.Reason == "" {
		return fmt.Sprintf("sluice: websocket: closed %s with code %d", by, e.Code)
	}
	return fmt.Sprintf("sluice: websocket: closed %s with code %d: %s", by, e.Code, e.Reason)
}

// Unwrap returns e.Cause.
func (e *CloseError) Unwrap() error { return e.Cause }

// CloseCode returns the Code of the *CloseError in err, and CodeAbnormal if there is none.
func CloseCode(err error) Code {
	var closed *CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return CodeAbnormal
}

// A StatusError is an answer to a handshake that is refused.
type StatusError struct {
	Status int    // 400 and more; 0: 403
	Text   string // the body of the response
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("sluice: websocket: handshake refused with status %d: %s", e.Status, e.Text)
}

// ErrMoved is returned by methods of a Conn whose connection was handed over to another
// process. OnClose is not called for it.
var ErrMoved = errors.New("sluice: websocket: the connection has moved to another process")

// A HandshakeError says that the server has not accepted a connection.
type HandshakeError struct {
	Status int    // of the response; 101, or 2xx with HTTP/2, if the handshake breaks a rule
	Reason string // what was wrong
	// Header and Body are those of the response. Body has what had come when the context
	// ended, at most 64 KiB.
	Header *sluice.ResponseHeader
	Body   []byte
}

// Error implements error.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("sluice: websocket: the server has answered with status %d: %s", e.Status, e.Reason)
}
