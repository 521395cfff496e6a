package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/message"
)

// Read reads the head of a request from r. What follows the head stays in r. h
// keeps its settings (see DisableNormalizing and DisableSpecialHeader).
//
// After an error h is empty. The error is io.EOF if r ends before the first
// byte of the head, ErrNothingRead if r fails before that byte,
// io.ErrUnexpectedEOF if r ends within the head, and *ErrSmallBuffer if the
// head is larger than r's buffer. Any other failure of r is returned unchanged.
// The error of a malformed head says what is wrong, and often matches a
// variable of this package: use errors.Is and errors.As.
func (h *RequestHeader) Read(r *bufio.Reader) error {
	return h.m.Read(r, message.ReaderLimits(r))
}

// Read reads the head of a response from r. What follows the head stays in r. h
// keeps its settings. Up to four line ends before the head are skipped.
//
// The errors are those of RequestHeader.Read, with two differences. If r fails
// before the first byte, the error is ErrTimeout for a time-out; for any other
// failure, it matches both io.EOF and the error of r. The error of a malformed
// head also matches ErrReadingResponseHeaders.
func (h *ResponseHeader) Read(r *bufio.Reader) error {
	h.m.ResetMessage()
	return startError(h.m.Read(r, message.ReaderLimits(r)), io.EOF)
}

// ReadTrailer reads the trailer section after the last chunk of a body. It
// drops fields that must not be trailer fields (RFC 9110 section 6.5.1). Peek
// finds the others, and Trailers lists their names; All does not show them. The
// errors are those of RequestHeader.Read. The error of a section that is
// malformed or too large also matches ErrBadTrailer.
func (h *RequestHeader) ReadTrailer(r *bufio.Reader) error {
	return h.m.ReadTrailer(r, message.ReaderLimits(r))
}

// ReadTrailer is RequestHeader.ReadTrailer.
func (h *ResponseHeader) ReadTrailer(r *bufio.Reader) error {
	return h.m.ReadTrailer(r, message.ReaderLimits(r))
}
