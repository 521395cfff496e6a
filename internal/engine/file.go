package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// A File is a part of a file for Conn.SendFile.
type File struct {
	// Source is read at offsets of our own: its own offset is neither used nor
	// moved, so that several connections may send parts of one descriptor. It
	// stays open until Done is closed. Not nil.
	Source *os.File
	Offset int64
	Size   int64     // bytes; 0 or less: none
	Done   io.Closer // closed once, when the engine needs Source no longer; nil: nothing is
}

// ErrShortFile is the end of a connection whose File ended before Size bytes.
var ErrShortFile = fmt.Errorf("sluice: a file ended before its announced length: %w", io.ErrUnexpectedEOF)

// Release closes Done and forgets the file; it may be called again. Engines call
// it. It returns an error only if Done panics.
func (f *File) Release() (err error) {
	done := f.Done
	*f = File{}
	if done == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	_ = done.Close() // the file was only read
	return nil
}

// ReadPiece fills p with what is next in the file, or with all of it if that is
// less. Engines call it where there is no sendfile(2), and add to Offset what
// they have sent of it.
func (f *File) ReadPiece(p []byte) (int, error) {
	if int64(len(p)) > f.Size {
		p = p[:f.Size]
	}
	n, err := f.Source.ReadAt(p, f.Offset)
	switch {
	case n > 0:
		return n, nil // an error comes again
	case err == nil || errors.Is(err, io.EOF):
		return 0, ErrShortFile
	}
	// Not wrapped: it must not be taken for an error of the connection.
	return 0, fmt.Errorf("sluice: cannot read a file that is being sent: %v", err)
}

// Advance notes that n more bytes of the file were sent.
func (f *File) Advance(n int) {
	f.Offset += int64(n)
	f.Size -= int64(n)
}
