// Package body moves the content of messages between memory, streams and connections:
// what follows a head of HTTP/1.1 (RFC 9112 sections 6 and 7), the body streams of
// programs (Pipe, FuncStream, Upload), and bodies that are read while they arrive
// (Stream). Its callers say how content is framed.
package body

import (
	"cmp"
	"errors"
	"io"
	"math"
	"os"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// ErrTooLarge is returned for content beyond a limit.
var ErrTooLarge = errors.New("sluice: the body is longer than the given limit")

// pieceSize is the size of one read from a stream.
const pieceSize = 32 << 10

// WriterTo returns s as an io.WriterTo, if its WriteTo may replace Read. A stream
// with a method SupportsBodyWriteTo says so itself. mayInfer allows other WriterTos.
// Otherwise to is nil.
func WriterTo(s io.Reader, mayInfer bool) (to io.WriterTo, ok bool) {
	switch s := s.(type) {
	case interface {
		io.WriterTo
		SupportsBodyWriteTo() bool
	}:
		if s.SupportsBodyWriteTo() {
			return s, true
		}
	case *os.File:
		return nil, false // its WriteTo would read into a buffer of its own
	case io.WriterTo:
		if mayInfer {
			return s, true
		}
	}
	return nil, false
}

// Close closes s because of err, which may be nil, and returns the first error. A
// stream with a method CloseWithError is told err; its Close is called first.
func Close(s io.Reader, err error) error {
	var closeErr, toldErr error
	if s, ok := s.(io.Closer); ok {
		closeErr = s.Close()
	}
	if s, ok := s.(interface{ CloseWithError(err error) error }); ok {
		toldErr = s.CloseWithError(err)
	}
	return cmp.Or(err, closeErr, toldErr)
}

// AppendStream appends everything that s returns to dst. It returns ErrTooLarge for
// more than limit bytes; 0 is no limit.
func AppendStream(dst []byte, s io.Reader, limit int) ([]byte, error) {
	to, ok := WriterTo(s, true)
	if !ok {
		return appendAll(dst, s, limit)
	}
	w := appender{bytes: dst, left: math.MaxInt}
	if limit > 0 {
		w.left = limit
	}
	_, err := to.WriteTo(&w)
	if w.left < 0 {
		err = ErrTooLarge
	}
	return w.bytes, err
}

// appender appends what is written to it, up to a limit.
type appender struct {
	bytes []byte
	left  int // < 0: the limit was exceeded
}

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	if len(p) > a.left {
		a.left = -1
		return 0, ErrTooLarge
	}
	a.bytes = append(a.bytes, p...)
	a.left -= len(p)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (a *appender) WriteString(s string) (int, error) { return a.Write(ascii.Bytes(s)) }

// appendAll is AppendStream for a stream that is read.
func appendAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		dst = makeRoom(dst, 0)
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if limit > 0 && len(dst)-start > limit {
			return dst[:start+limit], ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// Copy copies s to w.
func Copy(w io.Writer, s io.Reader) error {
	if _, ok := WriterTo(s, true); !ok {
		s = struct{ io.Reader }{s}
	}
	_, err := io.Copy(w, s)
	return err
}

// makeRoom returns b with spare capacity. If b is full, it grows to twice its
// capacity, at least to 512 bytes, and by at most left if that is positive. So
// memory stays in proportion to the bytes that have arrived.
func makeRoom(b []byte, left int64) []byte {
	if len(b) < cap(b) {
		return b
	}
	grown := max(512, 2*cap(b))
	if left > 0 && int64(grown-len(b)) > left {
		grown = len(b) + int(left)
	}
	return append(make([]byte, 0, grown), b...)
}

// LimitReader returns a reader of at most limit bytes of r. It returns ErrTooLarge if
// r has more.
func LimitReader(r io.Reader, limit int) io.Reader { return &limitedReader{r, limit} }

type limitedReader struct {
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > l.left {
		n, err = l.left, ErrTooLarge
	}
	l.left -= n
	return n, err
}

// Memory is a body stream of bytes in memory. Whoever writes it need not copy them.
type Memory struct{ Left []byte }

// Read implements io.Reader.
func (m *Memory) Read(p []byte) (int, error) {
	n := copy(p, m.Left)
	m.Left = m.Left[n:]
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo.
func (m *Memory) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(m.Left)
	m.Left = m.Left[n:]
	return int64(n), err
}

// SupportsBodyWriteTo tells that WriteTo may replace Read.
func (m *Memory) SupportsBodyWriteTo() bool { return true }

// Close implements io.Closer.
func (m *Memory) Close() error {
	m.Left = nil
	return nil
}
