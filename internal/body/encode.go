package body

import (
	"io"

	"github.com/sluicehttp/sluice/internal/compress"
)

// Encoding is a body stream that encodes another stream while it is read. It owns that.
type Encoding struct{ compress.Stream }

// NewEncoding returns source encoded; see compress.Stream.Start.
func NewEncoding(source io.Reader, c compress.Coding, level int, flushes bool) *Encoding {
	e := &Encoding{}
	to, _ := WriterTo(source, true)
	e.Start(source, to, c, level, flushes)
	return e
}

// SupportsBodyWriteTo reports whether WriteTo may replace Read.
func (e *Encoding) SupportsBodyWriteTo() bool { return e.HasWriterTo() }

// CloseWithError closes the source.
func (e *Encoding) CloseWithError(err error) error {
	encodeErr := e.End()
	if err := Close(e.Source(), err); err != nil {
		return err
	}
	return encodeErr
}

// Exact is a body stream whose length is known, for content that is sent without its length. It
// leaves out what is beyond the length. An end before the length is an error, because the recipient could
// not see it.
type Exact struct {
	source io.Reader
	left   int64
}

// NewExact returns the first n bytes of source, which it owns.
func NewExact(source io.Reader, n int64) *Exact { return &Exact{source, n} }

// Read implements io.Reader.
func (e *Exact) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.source.Read(p[:min(int64(len(p)), e.left)])
	if e.left -= int64(n); e.left > 0 {
		err = Unexpected(err)
	}
	return n, err
}

// SupportsBodyWriteTo reports whether WriteTo may replace Read.
func (e *Exact) SupportsBodyWriteTo() bool {
	_, ok := WriterTo(e.source, true)
	return ok
}

// WriteTo implements io.WriterTo.
func (e *Exact) WriteTo(w io.Writer) (int64, error) {
	before, to := e.left, Sized{To: w, Left: e.left}
	err := to.CopyFrom(e.source, true)
	if e.left = to.Left; err == nil && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return before - e.left, err
}

// CloseWithError closes the source.
func (e *Exact) CloseWithError(err error) error { return Close(e.source, err) }

// encoderMemory is about what the encoder of a content coding needs.
const encoderMemory = 1 << 20

// Holds returns about how many bytes of memory a body stream keeps, which may be nil.
func Holds(stream io.Reader) (n int) {
	if e, ok := stream.(*Encoding); ok {
		n, stream = encoderMemory, e.Source()
	}
	if e, ok := stream.(*Exact); ok {
		stream = e.source
	}
	if s, ok := stream.(interface{ Len() int }); ok { // a reader of bytes in memory
		n += s.Len()
	}
	return n
}
