package body

import (
	"bufio"
	"io"
)

// StartPipe runs write in a new goroutine and returns the Pipe that it writes to. panicked
// is that of Run.
func StartPipe(write func(w *bufio.Writer), panicked func(value any) error) *Pipe {
	p := NewPipe()
	go p.Run(write, panicked)
	return p
}

// A FuncStream is a body stream that a function writes. The function runs exactly once: in
// place, if the code that writes the message supports that; in a goroutine, when the
// stream is read; or with a closed reader, if nothing reads the body, so that it can
// clean up.
type FuncStream struct {
	// Write is the function.
	Write func(w *bufio.Writer)
	// Panicked is that of Run.
	Panicked func(value any) error
	// Stray is decremented when Write runs in place, or has returned to a reader that was
	// not closed: no goroutine outlives the message then. It may be nil.
	Stray *int32

	pipe  *Pipe
	state writerState
}

// A writerState is how far Write is.
type writerState uint8

const (
	writerWaits  writerState = iota // it was not called, or runs in a goroutine
	writerEnded                     // it runs in place, or has returned
	writerStrays                    // its reader was closed, and it may still run
)

// WriteInPlace runs Write.
func (s *FuncStream) WriteInPlace(w *bufio.Writer) {
	s.ended()
	s.Write(w)
}

func (s *FuncStream) ended() {
	s.state = writerEnded
	if s.Stray != nil {
		*s.Stray--
	}
}

// Read implements io.Reader.
func (s *FuncStream) Read(p []byte) (int, error) {
	if s.state == writerEnded {
		return 0, io.EOF
	}
	if s.pipe == nil {
		s.pipe = StartPipe(s.Write, s.Panicked)
	}
	n, err := s.pipe.Read(p)
	if err == io.EOF && s.state == writerWaits {
		s.ended()
	}
	return n, err
}

// Close implements io.Closer.
func (s *FuncStream) Close() error {
	if s.state == writerEnded {
		return nil
	}
	s.state = writerStrays
	if s.pipe != nil {
		return s.pipe.Close()
	}
	s.pipe = NewPipe()
	err := s.pipe.Close() // before Write begins
	go s.pipe.Run(s.Write, s.Panicked)
	return err
}
