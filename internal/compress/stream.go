package compress

import (
	"io"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// streamPart is how many bytes of a stream, at most, are encoded at once.
const streamPart = 32 << 10

// Stream encodes another stream while it is read or written. Start begins it;
// then either Read or WriteTo is called to the end, or End.
type Stream struct {
	source  io.Reader
	to      io.WriterTo // source, if its WriteTo may be used
	encoder *Writer     // nil at the end
	in      *buf.Buffer
	out     []byte // encoded and not yet read: out[start:]
	start   int
	flushes bool // encoded output is flushed after each Read or Write of the source
	err     error
}

// Start makes s the stream that encodes source. to, if it is not nil, may be
// used in place of source. With flushes, what the source has given is encoded at
// once. s must not be copied from now on.
func (s *Stream) Start(source io.Reader, to io.WriterTo, c Coding, level int, flushes bool) {
	s.source, s.to, s.flushes = source, to, flushes
	s.encoder = NewWriter((*appender)(&s.out), c, level)
}

// appender is an io.Writer that appends to a slice.
type appender []byte

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for s.start == len(s.out) {
		if s.err != nil {
			return 0, s.err
		}
		s.out, s.start = s.out[:0], 0
		s.err = s.encodeMore()
	}
	n := copy(p, s.out[s.start:])
	s.start += n
	return n, nil
}

// Source returns the source, which stays the caller's to close.
func (s *Stream) Source() io.Reader { return s.source }

// HasWriterTo reports whether WriteTo uses that of the source.
func (s *Stream) HasWriterTo() bool { return s.to != nil }

// WriteTo implements io.WriterTo.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	if s.to == nil || s.err != nil {
		return io.Copy(w, struct{ io.Reader }{s})
	}
	out := streamWriter{s: s, w: w}
	if _, s.err = s.to.WriteTo(&out); s.err == nil {
		s.err = s.End()
	}
	if err := out.passOn(); s.err == nil {
		s.err = err
	}
	err := s.err
	if err == nil {
		s.err = io.EOF
	}
	return out.n, err
}

// streamWriter encodes what is written to it, and writes the result to w.
type streamWriter struct {
	s *Stream
	w io.Writer
	n int64 // bytes that w has accepted
}

// Write implements io.Writer.
func (o *streamWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:min(len(p), n+streamPart)]
		n += len(part)
		if _, err = o.s.encoder.Write(part); err == nil && o.s.flushes {
			err = o.s.encoder.Flush()
		}
		if err == nil {
			err = o.passOn()
		}
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (o *streamWriter) WriteString(s string) (int, error) { return o.Write(ascii.Bytes(s)) }

// passOn writes the encoded bytes to w.
func (o *streamWriter) passOn() error {
	s := o.s
	if s.start == len(s.out) {
		return nil
	}
	n, err := o.w.Write(s.out[s.start:])
	o.n += int64(n)
	s.out, s.start = s.out[:0], 0
	return err
}

// encodeMore encodes what one Read of the source returns.
func (s *Stream) encodeMore() error {
	if s.in == nil {
		s.in = buf.Get(streamPart)
	}
	in := s.in.B[:cap(s.in.B)]
	n, err := s.source.Read(in)
	if n > 0 {
		if _, err := s.encoder.Write(in[:n]); err != nil {
			return err
		}
		if s.flushes && err == nil {
			return s.encoder.Flush()
		}
	}
	if err == io.EOF {
		if err := s.End(); err != nil {
			return err
		}
	}
	return err
}

// End writes the end of the format, and releases encoder and buffer. It does not
// close the source.
func (s *Stream) End() error {
	if s.in != nil {
		s.in.Release()
		s.in = nil
	}
	if s.encoder == nil {
		return nil
	}
	encoder := s.encoder
	s.encoder = nil
	return encoder.Close()
}
