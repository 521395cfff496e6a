package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// crowd is an fs.FS of one directory with this many empty files.
type crowd int

type crowdFile struct {
	fs.DirEntry
	name string
}

func (c crowdFile) Name() string { return c.name }

func (c crowd) Open(string) (fs.File, error)     { return nil, fs.ErrNotExist }
func (c crowd) Stat(string) (fs.FileInfo, error) { return oddInfo{&oddFile{mode: fs.ModeDir}}, nil }
func (c crowd) ReadDir(string) ([]fs.DirEntry, error) {
	file := fs.FileInfoToDirEntry(oddInfo{&oddFile{size: -1}})
	entries := make([]fs.DirEntry, c)
	for i := range entries {
		entries[i] = crowdFile{file, fmt.Sprint(i)}
	}
	return entries, nil
}

func TestListIsBounded(t *testing.T) {
	if invariants.Enabled {
		t.Skip("seconds, and no goroutines")
	}
	for there, want := range map[crowd]int{3: 3, 1 << 17: 1 << 17, 1<<17 + 1: 1 << 17} {
		entries, more, err := New(Options{FS: there}).ReadDir(nil, 0)
		if err != nil || len(entries) != want || more != (int(there) > want) {
			t.Errorf("%d files: %d, more %v, %v", there, len(entries), more, err)
		}
		if entries[0].Size != 0 {
			t.Errorf("a size that is not known is %d", entries[0].Size)
		}
	}
}

// endless is a directory of the operating system without an end.
type endless struct{ source }

type endlessFile struct {
	fs.ReadDirFile
	batch []fs.DirEntry
}

func (e endless) open(name string) (fs.File, error) {
	f, err := e.source.open(name)
	return endlessFile{f.(fs.ReadDirFile), make([]fs.DirEntry, 1024)}, err
}

func (f endlessFile) ReadDir(n int) ([]fs.DirEntry, error) { return f.batch[:n], nil }

func TestEndlessDirectory(t *testing.T) {
	listed, more, err := readNames(endless{plain{t.TempDir()}}, ".")
	if err != nil || len(listed) != 1<<17 || !more {
		t.Errorf("%d names, more %v, %v", len(listed), more, err)
	}
}

// A list that ends with an error returns no entries.
func TestErrorsOfLists(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", nil)
	for what, c := range map[string]struct {
		o    Options
		name string
		want error
	}{
		"no root":         {Options{Root: dir + "/nothing"}, "", fs.ErrNotExist},
		"no directory":    {Options{Root: dir}, "nothing", fs.ErrNotExist},
		"a file":          {Options{Root: dir}, "file", fs.ErrNotExist},
		"an invalid name": {Options{Root: dir}, "..", fs.ErrInvalid},
		"an FS' file":     {Options{FS: os.DirFS(dir)}, "file", fs.ErrNotExist},
		"an FS' nothing":  {Options{FS: os.DirFS(dir)}, "nothing", fs.ErrNotExist},
		"an FS' error":    {Options{FS: of(oddFile{statErr: errOdd})}, "", errOdd.Err},
		"no ReadDir":      {Options{FS: of(oddFile{mode: fs.ModeDir})}, "", nil},
	} {
		entries, more, err := New(c.o).ReadDir([]byte(c.name), 0)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || len(entries) > 0 || more {
			t.Errorf("%s: %v, more %v, %v", what, entries, more, err)
		}
	}
}

// A directory that cannot be opened or read to its end is an error, whatever was read
// before.
func TestListThatBreaksOff(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		write(t, fmt.Sprintf("%s/%d", dir, i), nil)
	}
	for _, fails := range []string{"", "open", "ReadDir", "kind"} {
		listed, more, err := readNames(brokenList{plain{dir}, fails}, ".")
		if (err == nil) != (fails == "") || more || err == nil && len(listed) != 3 || err != nil && listed != nil {
			t.Errorf("%s fails: %d names, more %v, %v", fails, len(listed), more, err)
		}
	}
	if n := openDescriptors(t, dir); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// brokenList fails in the method that it names.
type brokenList struct {
	source
	fails string
}

func (b brokenList) open(name string) (fs.File, error) {
	f, err := b.source.open(name)
	switch b.fails {
	case "open":
		f.Close()
		return nil, errTrouble
	case "kind":
		return struct{ fs.File }{f}, err
	}
	return &brokenFile{f.(fs.ReadDirFile), b.fails == "ReadDir", 0}, err
}

// brokenFile returns one name at a time and fails after the second.
type brokenFile struct {
	fs.ReadDirFile
	isBroken bool
	given    int
}

func (b *brokenFile) ReadDir(int) ([]fs.DirEntry, error) {
	if b.given++; b.given > 2 && b.isBroken {
		return nil, errTrouble
	}
	return b.ReadDirFile.ReadDir(1)
}

// A copy without its original is listed like other files; so are names with a copy's
// suffix if there are no copies.
func TestWhichNamesAreListed(t *testing.T) {
	files := fstest.MapFS{"a": {}, "a.x.gz": {}, "b.x.gz": {}, ".x.gz": {}, "a.x.br": {}, temporaryPrefix + temporarySuffix: {}, "x" + temporarySuffix: {}}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Suffixes: suffixes()}, ".x.gz a b.x.gz x.tmp"},
		{Options{Suffixes: [Encodings]string{Gzip: ".x.gz"}}, ".x.gz a a.x.br b.x.gz x.tmp"},
		{Options{}, ".x.gz a a.x.br a.x.gz b.x.gz x.tmp"},
	} {
		c.o.FS = files
		entries, _, err := New(c.o).ReadDir(nil, 0)
		if got := namesOf(entries); err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
}

func TestCompareFolded(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "A", 0}, {"a", "b", -1}, {"B", "a", 1}, {"a", "AB", -1}, {"ab", "A", 1}, {"Ä", "ä", 0}, {"äx", "Ä", 1}, {"Z", "ä", -1},
	} {
		if got := compareFolded(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// A directory shows what can be opened, and nothing that the package wrote.
func TestIsListed(t *testing.T) {
	s := New(Options{FS: fstest.MapFS{}, Suffixes: suffixes()})
	for name, want := range map[string]bool{
		"file": true, "a b": true, "other.x.gz": true, "file.gz": true,
		temporaryPrefix + "1" + temporarySuffix: false, "a/b": false, "a\x00b": false, "": false, "..": false, strings.Repeat("x", maxName+1): false, "file.x.gz": false,
	} {
		if got := s.isListed(name, map[string]bool{"file": true}); got != want {
			t.Errorf("%.20q is listed: %v", name, got)
		}
	}
}

// What was changed within the window may change again without another time.
func TestIsDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		for age, want := range map[time.Duration]bool{-time.Hour: true, 0: true, doubtWindow - 1: true, doubtWindow: false, time.Hour: false} {
			if got := isDoubtful(time.Now().Add(-age)); got != want {
				t.Errorf("changed %v ago: %v", age, got)
			}
		}
	})
	if !isDoubtful(time.Time{}) {
		t.Error("a file without a time is not doubtful")
	}
}

// What a system says of a folder's size means nothing to clients.
func TestListedFoldersHaveNoSize(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/folder", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/file", []byte("123"))
	entries, _, err := New(Options{Root: dir}).ReadDir(nil, 0)
	if err != nil || len(entries) != 2 || !entries[0].IsDir || entries[0].Size != 0 || entries[1].Size != 3 {
		t.Errorf("%+v, %v", entries, err)
	}
}
