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
	// Source is read at explicit offsets. Its file offset is neither used nor
	// moved, so several connections may send parts of one descriptor. The caller
	// keeps it open until Done is closed. Not nil.
	Source *os.File
	Offset int64
	Size   int64     // bytes; 0 or less: none
	Done   io.Closer // closed once, when the engine no longer needs Source; may be nil
}

// ErrShortFile ends a connection whose File ended before Size bytes.
var ErrShortFile = fmt.Errorf("sluice: a file ended before its announced length: %w", io.ErrUnexpectedEOF)

// Release closes Done and clears f. Further calls do nothing. Engines call it. It
// returns an error only if Done's Close panics.
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

// ReadPiece reads the next bytes of the file into p, at most Size of them. Engines
// call it where there is no sendfile(2), and then call Advance with the number of
// bytes that they have sent.
func (f *File) ReadPiece(p []byte) (int, error) {
	if int64(len(p)) > f.Size {
		p = p[:f.Size]
	}
	n, err := f.Source.ReadAt(p, f.Offset)
	switch {
	case n > 0:
		return n, nil // the next call returns the error
	case err == nil || errors.Is(err, io.EOF):
		return 0, ErrShortFile
	}
	// Not wrapped, so that callers do not treat it as an error of the connection.
	return 0, fmt.Errorf("sluice: cannot read a file that is being sent: %v", err)
}

// Advance notes that n more bytes of the file were sent.
func (f *File) Advance(n int) {
	f.Offset += int64(n)
	f.Size -= int64(n)
}
