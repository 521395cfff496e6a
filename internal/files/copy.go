package files

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// Temporary files are called .sluice-<random>.tmp.
const (
	temporaryPrefix = ".sluice-"
	temporarySuffix = ".tmp"
	temporaryAge    = time.Hour // older ones were left by a crash
	temporaryScan   = 1 << 14   // how many names are searched for old ones
	maxSwept        = 1024      // folders known to have none
)

// errKept says that another kind of file has the copy's name.
var errKept = errors.New("sluice: not a file to replace")

// makeCopyRoot creates CompressRoot and returns it with a reference, or nil.
func (s *Store) makeCopyRoot(now int64) folder {
	if s.library != nil || s.options.NoCopies || s.options.CompressRoot == "" {
		return nil
	}
	if os.MkdirAll(s.options.CompressRoot, 0o755) != nil {
		return nil
	}
	return s.copyFolder(nil, now)
}

// writeCopy writes an encoded copy of original. It writes a temporary file and
// renames it when it is complete. The copy gets the original's permissions and time.
// A link, or anything else that is not a regular file, is not replaced.
func (s *Store) writeCopy(at folder, copyName string, original *File, data []byte) error {
	if original.modified.IsZero() {
		return errOldCopy // without a time, an outdated copy could not be recognised
	}
	switch info, err := at.lstat(copyName); {
	case err == nil && !info.Mode().IsRegular():
		return errKept
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := path.Dir(copyName)
	if s.options.CompressRoot != "" {
		if err := at.makeAll(dir); err != nil {
			return err
		}
	}
	s.removeOldTemporaries(at, dir)
	temporary := path.Join(dir, temporaryPrefix+rand.Text()+temporarySuffix)
	f, err := at.create(temporary)
	if err != nil {
		return err
	}
	err = writeAll(f, data, original.permissions)
	if err == nil {
		err = at.setTime(temporary, original.modified)
	}
	if err == nil && !original.isCurrent() {
		err = errOldCopy
	}
	if err == nil {
		err = at.rename(temporary, copyName)
	}
	if err != nil {
		_ = at.remove(temporary) // the error does not matter
	}
	return err
}

// writeAll writes data and closes f. The data is synced to the disk before the copy
// gets its time, which makes it valid. Otherwise a crash could leave an empty copy
// that counts as valid.
func writeAll(f *os.File, data []byte, permissions fs.FileMode) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(permissions)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// removeOldTemporaries removes the temporary files that a crash left in a folder,
// once for each folder and Store.
func (s *Store) removeOldTemporaries(at folder, dir string) {
	s.mu.Lock()
	_, isDone := s.swept[dir]
	if !isDone {
		if len(s.swept) >= maxSwept {
			clear(s.swept)
		}
		s.swept[dir] = struct{}{}
	}
	s.mu.Unlock()
	if isDone {
		return
	}
	opened, err := at.open(dir)
	if err != nil {
		return
	}
	defer opened.Close()
	list, ok := opened.(fs.ReadDirFile)
	if !ok {
		return
	}
	entries, _ := list.ReadDir(temporaryScan) // after an error, the names read so far are used
	for _, entry := range entries {
		if !isTemporary(entry.Name()) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > temporaryAge {
			_ = at.remove(path.Join(dir, entry.Name())) // another process may have removed it
		}
	}
}

func isTemporary(base string) bool {
	return strings.HasPrefix(base, temporaryPrefix) && strings.HasSuffix(base, temporarySuffix)
}
