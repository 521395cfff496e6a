package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// partial is the prefix of unfinished files' names. Names that begin with a dot are
// not accepted from clients.
const partial = ".upload-"

var (
	errName       = errors.New("no name for a file")
	errTooLarge   = errors.New("too large")
	errForm       = errors.New("malformed form")
	errIncomplete = errors.New("incomplete")
)

// A store is a folder of complete files: a file gets its name when it is completely
// on the disk.
type store struct {
	root *os.Root // prevents access outside of it
	max  int64    // bytes of a file
}

// openStore opens the folder dir and removes files that a crash has left.
func openStore(dir string, max int64) (*store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	left, err := fs.Glob(root.FS(), partial+"*")
	for _, name := range left {
		err = errors.Join(err, root.Remove(name))
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return &store{root, max}, nil
}

// save copies r to the file name, which it replaces. After an error the folder is
// unchanged.
func (s *store) save(name string, r io.Reader) (size int64, err error) {
	if !isFileName(name) {
		return 0, errName
	}
	temporary := partial + rand.Text()
	file, err := s.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			file.Close() // report the first error
			s.root.Remove(temporary)
		}
	}()
	// io.Copy uses 32 KiB for any size. One byte more than allowed distinguishes a
	// file of the largest size from one that is too large.
	size, err = io.Copy(file, io.LimitReader(r, s.max+1))
	switch {
	case err != nil:
		return 0, err
	case size > s.max:
		return 0, errTooLarge
	}
	if err := file.Sync(); err != nil {
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, err
	}
	if err := s.root.Rename(temporary, name); err != nil {
		return 0, err
	}
	s.syncFolder()
	return size, nil
}

// syncFolder makes the new name survive a crash of the system. Not every system
// supports this, so there is no error.
func (s *store) syncFolder() {
	if folder, err := s.root.Open("."); err == nil {
		folder.Sync()
		folder.Close()
	}
}

// isFileName reports whether clients may use name: one element of a path on any system,
// and not hidden.
func isFileName(name string) bool {
	return filepath.IsLocal(name) && !strings.ContainsAny(name, `/\:`) && !strings.HasPrefix(name, ".") && len(name) <= 200
}

// saved returns the response for a stored file.
func saved(name string, size int64) string { return fmt.Sprintf("%s: %d bytes\n", name, size) }
