package body

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/compress"
)

// MaxCodings bounds the codings of one body: the decoder of each has a window.
const MaxCodings = 3

// errAfterEnd: RFC 9110 section 8.4 has no content after that of a coding.
var errAfterEnd = errors.New("there is more after its end")

// Decoding is a body stream that decodes another stream while it is read. It owns that. Close
// may be called concurrently with Read. An empty stream is empty in every coding.
type Decoding struct {
	source decodingSource

	mu       sync.Mutex         // Close may be called concurrently with Read
	decoders []*compress.Reader // each reads from the one before; empty after the end
	isBegun  bool
	err      error // returned by every later Read
}

// NewDecoding returns source decoded. codings are in the order in which they were applied, at
// least one. limit bounds the output of each decoder, in bytes; 0 is no limit. Beyond it, Read
// returns ErrTooLarge.
func NewDecoding(source io.Reader, codings []compress.Coding, limit int) *Decoding {
	d := &Decoding{source: decodingSource{stream: source}}
	var from io.Reader = &d.source
	for _, c := range slices.Backward(codings) {
		z := compress.NewReader(from, c, limit)
		d.decoders = append(d.decoders, z)
		from = z
	}
	return d
}

// Read implements io.Reader. It returns io.EOF only after the end of the source. If that
// fails, the error is the source's.
func (d *Decoding) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil || len(p) == 0 {
		return 0, d.err
	}
	if !d.isBegun {
		d.isBegun = true
		if err := d.source.begin(); err != nil {
			return 0, d.endLocked(err)
		}
	}
	n, err := d.decoders[len(d.decoders)-1].Read(p)
	if err == io.EOF {
		err = d.finishLocked()
	}
	if err != nil {
		err = d.endLocked(err)
	}
	return n, err
}

// endLocked ends the decoding because of err, which is io.EOF after its end, and returns what
// Read does.
func (d *Decoding) endLocked(err error) error {
	switch failed := d.source.err; {
	case err == io.EOF:
	case failed != nil && failed != io.EOF:
		err = failed
	case errors.Is(err, compress.ErrTooLarge):
		err = ErrTooLarge
	default:
		err = fmt.Errorf("sluice: the body cannot be decoded: %w", Unexpected(err))
	}
	if err != io.EOF {
		_ = Close(d.source.stream, err)
	}
	d.releaseLocked()
	d.err = err
	return err
}

// finishLocked reads what decoders have left: the end of the source, after which it has its
// trailer fields. It returns io.EOF after that.
func (d *Decoding) finishLocked() error {
	var one [1]byte
	for i := len(d.decoders) - 2; i >= -1; i-- {
		var from io.Reader = &d.source
		if i >= 0 {
			from = d.decoders[i]
		}
		if n, err := io.ReadFull(from, one[:]); n > 0 {
			return errAfterEnd
		} else if err != io.EOF {
			return err
		}
	}
	return io.EOF
}

func (d *Decoding) releaseLocked() {
	for _, z := range d.decoders {
		_ = z.Close() // to its pool; never fails
	}
	d.decoders = nil
}

// Close implements io.Closer. It closes the source, which makes a waiting Read return.
func (d *Decoding) Close() error { return d.CloseWithError(nil) }

// CloseWithError is Close, and tells the source the reason.
func (d *Decoding) CloseWithError(err error) error {
	closeErr := Close(d.source.stream, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseLocked()
	d.err = ErrClosed
	return closeErr
}

// A decodingSource reads a stream, and remembers how it has ended: decoders change errors.
type decodingSource struct {
	stream   io.Reader
	first    [1]byte
	hasFirst bool // first was read by begin, and not by a decoder
	err      error
}

// begin reads the first byte. It returns io.EOF if there is none.
func (s *decodingSource) begin() error {
	n, err := io.ReadFull(s.stream, s.first[:])
	s.hasFirst = n > 0
	if err != nil {
		s.err = err
	}
	return err
}

// Read implements io.Reader.
func (s *decodingSource) Read(p []byte) (n int, err error) {
	switch {
	case s.err != nil || len(p) == 0:
		return 0, s.err
	case s.hasFirst:
		s.hasFirst = false
		p[0] = s.first[0]
		return 1, nil
	}
	n, s.err = s.stream.Read(p)
	return n, s.err
}
