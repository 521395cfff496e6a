package files

import (
	"cmp"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Entry is one line of a directory's listing.
type Entry struct {
	Name     string
	Size     int64     // 0 for a directory
	Modified time.Time // zero: unknown
	IsDir    bool
}

// maxListed bounds how many names of a directory are read. Of a larger directory,
// only the first names are listed.
const maxListed = 1 << 17

// listIn lists a directory: directories first, then by name without regard to case. It
// returns at most limit entries, or all if limit is 0 or less; more tells that there are
// others. It follows symbolic links as Open does. It leaves out everything that is neither a
// file nor a directory, and encoded copies whose original exists. It does not check whether
// a file can be read. Errors are those of Open; if the name is not a directory's, the error
// is fs.ErrNotExist.
func (s *Store) listIn(from source, dir string, limit int) ([]Entry, bool, error) {
	listed, more, err := readNames(from, dir)
	if err != nil {
		return nil, false, from.clean(err)
	}
	names := make(map[string]bool, len(listed))
	for _, entry := range listed {
		names[entry.Name()] = true
	}
	found := make([]Entry, 0, len(listed))
	for _, entry := range listed {
		if !s.isListed(entry.Name(), names) {
			continue
		}
		if e, ok := resolve(from, dir, entry); ok {
			found = append(found, e)
		}
	}
	sortEntries(found)
	if limit > 0 && len(found) > limit {
		found, more = found[:limit], true
	}
	return found, more, nil
}

// readNames reads a directory, up to maxListed names.
func readNames(from source, dir string) (listed []fs.DirEntry, more bool, err error) {
	info, err := from.stat(dir)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, false, err
	}
	if l, ok := from.(*library); ok {
		listed, err = fs.ReadDir(l.files, dir)
		more = len(listed) > maxListed
		return listed[:min(len(listed), maxListed)], more, err
	}
	opened, err := from.open(dir)
	if err != nil {
		return nil, false, err
	}
	defer opened.Close()
	list, ok := opened.(fs.ReadDirFile)
	if !ok {
		return nil, false, fs.ErrNotExist
	}
	for len(listed) < maxListed {
		batch, err := list.ReadDir(1024)
		listed = append(listed, batch...)
		if err == io.EOF {
			return listed, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return listed, true, nil
}

// isListed returns false for names that Open refuses, and for files that this package
// wrote.
func (s *Store) isListed(name string, names map[string]bool) bool {
	if isTemporary(name) || strings.Contains(name, "/") || s.checkName(name) != nil {
		return false
	}
	for _, suffix := range s.options.Suffixes {
		if original, ok := strings.CutSuffix(name, suffix); ok && suffix != "" && names[original] {
			return false
		}
	}
	return true
}

// resolve returns the Entry of a directory's entry after following links. It returns
// false for anything but files and directories.
func resolve(from source, dir string, listed fs.DirEntry) (Entry, bool) {
	mode := listed.Type()
	if mode&^(fs.ModeSymlink|fs.ModeDir) != 0 {
		return Entry{}, false
	}
	info, err := listed.Info()
	if err == nil && mode&fs.ModeSymlink != 0 {
		info, err = from.stat(path.Join(dir, listed.Name()))
	}
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return Entry{}, false
	}
	e := Entry{Name: listed.Name(), Size: max(info.Size(), 0), Modified: info.ModTime(), IsDir: info.IsDir()}
	if e.IsDir {
		e.Size = 0
	}
	return e, true
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		if a.IsDir != b.IsDir {
			if a.IsDir {
				return -1
			}
			return 1
		}
		return cmp.Or(compareFolded(a.Name, b.Name), strings.Compare(a.Name, b.Name))
	})
}

// compareFolded compares names without regard to case.
func compareFolded(a, b string) int {
	for a != "" && b != "" {
		x, sizeX := lowerRune(a)
		y, sizeY := lowerRune(b)
		if x != y {
			return cmp.Compare(x, y)
		}
		a, b = a[sizeX:], b[sizeY:]
	}
	return cmp.Compare(len(a), len(b))
}

func lowerRune(s string) (rune, int) {
	r, size := utf8.DecodeRuneInString(s)
	return unicode.ToLower(r), size
}
