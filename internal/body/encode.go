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

// encoderMemory is about what the encoder of a content coding needs.
const encoderMemory = 1 << 20

// Holds returns about how many bytes of memory a body stream keeps, which may be nil.
func Holds(stream io.Reader) (n int) {
	if e, ok := stream.(*Encoding); ok {
		n, stream = encoderMemory, e.Source()
	}
	if s, ok := stream.(interface{ Len() int }); ok { // a reader of bytes in memory
		n += s.Len()
	}
	return n
}
