package body

import "io"

// An Upload reads the body stream of a request, which may have to be sent again. One
// goroutine at a time reads it; Close may be called meanwhile.
type Upload struct {
	Stream   io.Reader
	Panicked func(v any) error // returns the error of a Read that panicked with v
	Count    int64             // the bytes that were read
	isClosed bool              // it cannot be read again
}

// Read implements io.Reader.
func (s *Upload) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.Panicked(v)
		}
	}()
	n, err = s.Stream.Read(p)
	s.Count += int64(n)
	return n, err
}

// Close implements io.Closer: it makes a waiting Read return.
func (s *Upload) Close() error {
	s.isClosed = true
	if c, ok := s.Stream.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Rewind reports whether the stream can be read again, from where it was.
func (s *Upload) Rewind() bool {
	switch seeker, ok := s.Stream.(io.Seeker); {
	case s.isClosed:
		return false
	case s.Count == 0:
		return true
	case !ok:
		return false
	default:
		_, err := seeker.Seek(-s.Count, io.SeekCurrent)
		return err == nil
	}
}
