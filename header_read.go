package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
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
	h.m.ResetMessage()
	p := h1.HeadParser{Role: h1.Requests, Limits: readerLimits(r)}
	if err := feedHead(r, &p, &h.m.Table); err != nil {
		err = requestError(err, h.m.Table.Raw(), buffered(r))
		h.m.ResetMessage()
		return err
	}
	h.m.SetParsed(&p.Head)
	return nil
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
	return startError(h.readWithin(r, readerLimits(r)), io.EOF)
}

// readWithin reads a head into h, which is reset.
func (h *ResponseHeader) readWithin(r *bufio.Reader, limits h1.Limits) error {
	p := h1.HeadParser{Role: h1.Responses, Limits: limits}
	if err := feedHead(r, &p, &h.m.Table); err != nil {
		err = responseError(err, h.m.Table.Raw(), r)
		h.m.ResetMessage()
		return err
	}
	h.m.SetParsed(&p.Head)
	return nil
}

// ReadTrailer reads the trailer section after the last chunk of a body. It
// drops fields that must not be trailer fields (RFC 9110 section 6.5.1). Peek
// finds the others, and Trailers lists their names; All does not show them. The
// errors are those of RequestHeader.Read. The error of a section that is
// malformed or too large also matches ErrBadTrailer.
func (h *RequestHeader) ReadTrailer(r *bufio.Reader) error {
	return receiveTrailer(&h.m.Header, r, readerLimits(r))
}

// ReadTrailer is RequestHeader.ReadTrailer.
func (h *ResponseHeader) ReadTrailer(r *bufio.Reader) error {
	return receiveTrailer(&h.m.Header, r, readerLimits(r))
}

// receiveTrailer is ReadTrailer with the given limits.
func receiveTrailer(h *message.Header, r *bufio.Reader, limits h1.Limits) error {
	p := h1.HeadParser{Limits: limits}
	p.ResetTrailer()
	t := field.Table{KeepNames: h.Table.KeepNames}
	if err := feedHead(r, &p, &t); err != nil {
		var violation *h1.Error
		if !errors.As(err, &violation) {
			return err
		}
		return knownError{ErrBadTrailer, sizeError(err)}
	}
	h1.DropForbiddenTrailers(&t)
	h.ReceiveTrailers(&t)
	return nil
}

// readerLimits returns the limits of a head that is read from r. They follow
// from the size of r's buffer.
func readerLimits(r *bufio.Reader) h1.Limits { return bufferLimits(r.Size()) }

// bufferLimits returns the limits of a head that is read with a buffer of size
// bytes.
func bufferLimits(size int) h1.Limits {
	return h1.Limits{MaxLine: size, MaxHead: size, MaxFields: max(size/64, h1.DefaultLimits.MaxFields)}
}

// restOfHead is the number of bytes that the parser gets at a time after the
// first piece of a head.
const restOfHead = 512

// feedHead feeds p from r until the head is complete. Bytes after the head stay
// in r, and so does the piece of input that p refuses.
func feedHead(r *bufio.Reader, p *h1.HeadParser, t *field.Table) error {
	for {
		if _, err := r.Peek(1); err != nil {
			return endError(err, t.Raw())
		}
		in, _ := r.Peek(r.Buffered()) // cannot fail
		if len(t.Raw()) > 0 {
			// The table copies all input of a head that arrives in pieces. Small
			// pieces keep it from copying much of what follows the head.
			in = in[:min(len(in), restOfHead)]
		}
		used, done, err := p.Parse(t, in)
		if err != nil {
			return err
		}
		if _, err := r.Discard(used); err != nil || done {
			return err
		}
	}
}

// endError returns the error of a head whose reader failed with err after raw.
// Empty lines before a head do not count as part of it.
func endError(err error, raw []byte) error {
	isFirst := len(bytes.Trim(raw, "\r\n")) == 0
	switch {
	case err == io.EOF && isFirst:
		return io.EOF
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case isFirst:
		return ErrNothingRead{cause: err}
	}
	return err
}

// sizeError turns a violation of a reader's limits into *ErrSmallBuffer.
func sizeError(err error) error {
	if errors.Is(err, h1.ErrLineTooLong) || errors.Is(err, h1.ErrHeadTooLarge) || errors.Is(err, h1.ErrTrailerTooLarge) {
		return &ErrSmallBuffer{cause: knownError{ErrSmallReadBuffer, err}}
	}
	return err
}

// framingError adds to a violation of the framing the exported variable that it
// must match.
func framingError(err error) error {
	var known error
	switch {
	case errors.Is(err, h1.ErrContentLengthConflict):
		known = ErrDuplicateContentLength
	case errors.Is(err, h1.ErrContentLength):
		known = ErrNonNumericChars
	case errors.Is(err, h1.ErrTransferCoding), errors.Is(err, h1.ErrTransferCodingUnknown):
		known = ErrUnsupportedTransferEncoding
	default:
		return sizeError(err)
	}
	return knownError{known, err}
}

// knownError matches an exported error variable, known, and the more precise
// reason.
type knownError struct{ known, reason error }

func (e knownError) Error() string {
	return e.known.Error() + " (" + strings.TrimPrefix(e.reason.Error(), "sluice: ") + ")"
}

func (e knownError) Unwrap() []error { return []error{e.known, e.reason} }

// buffered returns what r holds.
func buffered(r *bufio.Reader) []byte {
	held, _ := r.Peek(r.Buffered()) // cannot fail
	return held
}

// firstLine returns the start line of a head that was refused. kept is the part
// that the parser has consumed, and rest is what follows it.
func firstLine(kept, rest []byte) []byte {
	line, _, _ := bytes.Cut(bytes.TrimLeft(append(bytes.Clone(kept), rest...), "\r\n"), []byte("\r\n"))
	return line
}

// requestError adds to the error of a malformed request the exported variable
// that it must match.
func requestError(err error, kept, rest []byte) error {
	switch {
	case errors.Is(err, h1.ErrMethod), errors.Is(err, h1.ErrTarget), errors.Is(err, h1.ErrVersion):
	default:
		return framingError(err)
	}
	line := firstLine(kept, rest)
	method, target, _ := ascii.Cut(line, ' ')
	known := err
	switch {
	case errors.Is(err, h1.ErrMethod) && len(method) == 0:
		known = ErrMissingRequestMethod
	case errors.Is(err, h1.ErrMethod):
		known = ErrUnsupportedRequestMethod
	case bytes.HasPrefix(target, []byte(" HTTP/")), len(target) == 0:
		known = ErrEmptyRequestURI
	case bytes.Contains(line, []byte("  ")):
		known = ErrExtraWhitespaceInRequestLine
	default:
		return err
	}
	return knownError{known, err}
}

// responseError adds to the error of a malformed response the exported variables
// that it must match.
func responseError(err error, kept []byte, r *bufio.Reader) error {
	var violation *h1.Error
	if !errors.As(err, &violation) {
		return err
	}
	err = framingError(err)
	if errors.Is(err, h1.ErrStatusLine) {
		_, code, found := ascii.Cut(firstLine(kept, buffered(r)), ' ')
		code = bytes.TrimLeft(code, " ")
		switch {
		case !found:
			err = knownError{ErrResponseFirstLineMissingSpace, err}
		case len(code) > 3 && ascii.All(code[:3], ascii.Digit) && code[3] != ' ':
			err = knownError{ErrUnexpectedStatusCodeChar, err}
		}
	}
	if small := (*ErrSmallBuffer)(nil); errors.As(err, &small) {
		return err
	}
	return knownError{ErrReadingResponseHeaders, err}
}
