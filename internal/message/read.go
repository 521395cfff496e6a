package message

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// Read reads a head from r, whose rest stays in r. It keeps the settings of h. After
// an error h is empty.
func (h *RequestHeader) Read(r *bufio.Reader, limits h1.Limits) error {
	h.ResetMessage()
	p := h1.HeadParser{Role: h1.Requests, Limits: limits}
	if err := feedHead(r, &p, &h.Table); err != nil {
		err = RequestError(err, h.Table.Raw(), buffered(r))
		h.ResetMessage()
		return err
	}
	h.SetParsed(&p.Head)
	return nil
}

// Read reads a head from r into h, which is reset. Its rest stays in r. After an error
// h is empty. last makes the heads of a client's responses cheaper, if it is not nil.
func (h *ResponseHeader) Read(r *bufio.Reader, limits h1.Limits, last *h1.LastHead) error {
	p := h1.HeadParser{Role: h1.Responses, Limits: limits, Last: last}
	return h.read(r, &p)
}

// ReadTunnel is Read for an answer to CONNECT. A successful one has neither Content-Length nor
// Transfer-Encoding, whatever was sent (RFC 9110 section 9.3.6).
func (h *ResponseHeader) ReadTunnel(r *bufio.Reader, limits h1.Limits) error {
	p := h1.HeadParser{Role: h1.Responses, Limits: limits, AnswersConnect: true}
	if err := h.read(r, &p); err != nil {
		return err
	}
	if h.Status()/100 == 2 {
		h.Table.DelID(field.ContentLength)
		h.Table.DelID(field.TransferEncoding)
	}
	return nil
}

func (h *ResponseHeader) read(r *bufio.Reader, p *h1.HeadParser) error {
	if err := feedHead(r, p, &h.Table); err != nil {
		err = responseError(err, h.Table.Raw(), r)
		h.ResetMessage()
		return err
	}
	h.SetParsed(&p.Head)
	return nil
}

// ReadTrailer reads the trailer section after the last chunk. It drops fields that must
// not be trailer fields.
func (h *Header) ReadTrailer(r *bufio.Reader, limits h1.Limits) error {
	p := h1.HeadParser{Limits: limits}
	p.ResetTrailer()
	t := field.Table{KeepNames: h.Table.KeepNames}
	if err := feedHead(r, &p, &t); err != nil {
		var violation *h1.Error
		if !errors.As(err, &violation) {
			return err
		}
		if violation == h1.ErrControl || violation == h1.ErrBareCR {
			err = fmt.Errorf("invalid trailer value: %w", err)
		}
		return KnownError{ErrBadTrailer, sizeError(err)}
	}
	h1.DropForbiddenTrailers(&t)
	h.ReceiveTrailers(&t)
	return nil
}

// ReaderLimits returns the limits of a head that is read from r. They follow
// from the size of r's buffer, which a program has chosen for this message: with
// a field for every eight bytes, their table takes up three times as much.
func ReaderLimits(r *bufio.Reader) h1.Limits {
	limits := BufferLimits(r.Size())
	limits.MaxFields = max(limits.MaxFields, r.Size()/8)
	return limits
}

// BufferLimits returns the limits of a head that a server or a client reads with a
// buffer of size bytes.
func BufferLimits(size int) h1.Limits {
	return h1.Limits{MaxLine: size, MaxHead: size, MaxFields: max(size/64, h1.DefaultLimits.MaxFields)}
}

// restOfHead is the number of bytes that the parser gets at a time after the
// first piece of a head.
const restOfHead = 512

// feedHead feeds p from r until the head is complete. Bytes after the head stay
// in r, and so does the piece of input that p refuses.
func feedHead(r *bufio.Reader, p *h1.HeadParser, t *field.Table) error {
	for {
		if r.Buffered() == 0 {
			if _, err := r.Peek(1); err != nil {
				return EndError(err, t.Raw())
			}
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

// EndError returns the error of a head whose reader failed with err after raw.
// Empty lines before a head do not count as part of it.
func EndError(err error, raw []byte) error {
	isFirst := len(bytes.Trim(raw, "\r\n")) == 0
	switch {
	case err == io.EOF && isFirst:
		return io.EOF
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case isFirst:
		return ErrNothingRead{err}
	}
	return err
}

// sizeError turns a violation of a reader's limits into *ErrSmallBuffer.
func sizeError(err error) error {
	if errors.Is(err, h1.ErrLineTooLong) || errors.Is(err, h1.ErrHeadTooLarge) || errors.Is(err, h1.ErrTrailerTooLarge) {
		return SmallBuffer(err)
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
	return KnownError{known, err}
}

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

// RequestError adds to the error of a malformed request the exported variable
// that it must match.
func RequestError(err error, kept, rest []byte) error {
	switch {
	case errors.Is(err, h1.ErrMethod), errors.Is(err, h1.ErrTarget), errors.Is(err, h1.ErrVersion):
	default:
		return framingError(err)
	}
	line := firstLine(kept, rest)
	method, target, _ := ascii.Cut(line, ' ')
	var known error
	switch {
	case errors.Is(err, h1.ErrMethod) && len(method) == 0:
		known = ErrMissingRequestMethod
	case errors.Is(err, h1.ErrMethod):
		known = ErrUnsupportedRequestMethod
	case bytes.HasPrefix(target, []byte(" HTTP/")), len(target) == 0:
		known = uri.ErrEmptyTarget
	case bytes.Contains(line, []byte("  ")):
		known = ErrExtraWhitespaceInRequestLine
	default:
		return err
	}
	return KnownError{known, err}
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
			err = KnownError{ErrResponseFirstLineMissingSpace, err}
		case len(code) > 3 && ascii.All(code[:3], ascii.Digit) && code[3] != ' ':
			err = KnownError{ErrUnexpectedStatusCodeChar, err}
		}
	}
	if small := (*ErrSmallBuffer)(nil); errors.As(err, &small) {
		return err
	}
	return KnownError{ErrReadingResponseHeaders, err}
}
