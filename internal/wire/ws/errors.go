package ws

// An Error is a violation of the wire format or of a limit. All values are variables of
// this package; compare pointers.
type Error struct {
	Code Code // of the Close frame that answers it
	msg  string
}

// Error says what the peer did.
func (e *Error) Error() string { return "sluice: websocket: " + e.msg }

func bad(code Code, msg string) *Error { return &Error{Code: code, msg: msg} }

// The violations that parsers report.
var (
	ErrReserved     = bad(CodeProtocolError, "a frame has reserved bits set that no extension uses")
	ErrOpcode       = bad(CodeProtocolError, "a frame has an unknown opcode")
	ErrControl      = bad(CodeProtocolError, "a control frame is fragmented or has more than 125 bytes")
	ErrLength       = bad(CodeProtocolError, "the length of a frame is not in its shortest form, or exceeds 63 bits")
	ErrUnmasked     = bad(CodeProtocolError, "a frame from a client is not masked")
	ErrMasked       = bad(CodeProtocolError, "a frame from a server is masked")
	ErrContinuation = bad(CodeProtocolError, "a continuation frame does not continue a message")
	ErrInterleaved  = bad(CodeProtocolError, "a message begins before the last one has ended")
	ErrClose        = bad(CodeProtocolError, "a Close frame has a body of one byte, or a code that must not be sent")
	ErrCloseText    = bad(CodeInvalidText, "the reason in a Close frame is not UTF-8")
	ErrText         = bad(CodeInvalidText, "a text message is not UTF-8")
	ErrDeflate      = bad(CodeInvalidText, "a compressed message is damaged")
	ErrTooLarge     = bad(CodeTooLarge, "a message exceeds the limit")
	ErrFragments    = bad(CodePolicy, "a message has too many fragments")
)
