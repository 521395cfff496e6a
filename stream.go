package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/bodypipe"
	"github.com/sluicehttp/sluice/internal/message"
)

// A StreamWriter writes a body to w, usually over a longer time. w is buffered:
// call w.Flush to send what was written. A StreamWriter must return as soon as
// w returns an error, which means that nothing reads the body any more.
type StreamWriter func(w *bufio.Writer)

// NewStreamReader runs sw in a new goroutine and returns a reader of the bytes
// that sw writes. sw blocks while it is 128 KiB ahead of the reader. If sw
// panics, Read returns the panic as *ErrBodyStreamWritePanic.
//
// The reader is an io.WriterTo. Close it, or sw may block for ever. After
// Close, Read still returns the bytes that sw had written, and then io.EOF.
// Close may be called concurrently with Read.
func NewStreamReader(sw StreamWriter) io.ReadCloser {
	p := bodypipe.New()
	go p.Run(sw, message.StreamPanic)
	return p
}

// NewBoundedStreamReader is NewStreamReader, whose readers are all bounded: sw
// is at most 160 KiB ahead of the bytes that the reader has passed on.
func NewBoundedStreamReader(sw StreamWriter) io.ReadCloser { return NewStreamReader(sw) }

// writerStream is the body stream of SetBodyStreamWriter. The StreamWriter runs
// exactly once: in place, if the code that writes the message supports that; in
// a goroutine, when the stream is read; or with a closed reader, if nothing
// reads the body, so that it can clean up.
type writerStream struct {
	write StreamWriter
	stray *int // the body's count
	pipe  *bodypipe.Pipe
	state writerState
}

// A writerState is how far a StreamWriter is.
type writerState uint8

const (
	writerWaits  writerState = iota // it was not called, or runs in a goroutine
	writerEnded                     // it runs in place, or has returned
	writerStrays                    // its reader was closed, and it may still run
)

// writeInPlace runs the StreamWriter.
func (s *writerStream) writeInPlace(w *bufio.Writer) {
	s.ended()
	s.write(w)
}

func (s *writerStream) ended() {
	s.state = writerEnded
	*s.stray--
}

// Read implements io.Reader.
func (s *writerStream) Read(p []byte) (int, error) {
	if s.state == writerEnded {
		return 0, io.EOF
	}
	s.start()
	n, err := s.pipe.Read(p)
	if err == io.EOF && s.state == writerWaits {
		s.ended()
	}
	return n, err
}

func (s *writerStream) start() {
	if s.pipe == nil {
		s.pipe = bodypipe.New()
		go s.pipe.Run(s.write, message.StreamPanic)
	}
}

// Close implements io.Closer.
func (s *writerStream) Close() error {
	if s.state == writerEnded {
		return nil
	}
	s.state = writerStrays
	if s.pipe != nil {
		return s.pipe.Close()
	}
	s.pipe = bodypipe.New()
	err := s.pipe.Close() // before the StreamWriter begins
	go s.pipe.Run(s.write, message.StreamPanic)
	return err
}
