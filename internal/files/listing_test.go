package files

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func namesOf(entries []Entry) string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.IsDir {
			e.Name += "/"
		}
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "A.txt", "a.txt", "C", "Ärger", "äste", "page.html", "page.html.x.gz", "lone.x.gz", "Zdir/x", "adir/x", ".hidden", ".sluice-ABC.tmp"} {
		write(t, dir+"/"+name, []byte("123"))
	}
	symlink(t, "b.txt", dir+"/link")
	symlink(t, "adir", dir+"/linkdir")
	symlink(t, "/etc/passwd", dir+"/outside")
	symlink(t, "..", dir+"/parent")
	symlink(t, "nothing", dir+"/dangling")
	s := New(Options{Root: dir, Suffixes: suffixes()})
	want := "adir/ linkdir/ Zdir/ .hidden A.txt a.txt b.txt C link lone.x.gz page.html Ärger äste"
	for _, name := range []string{"", "."} {
		entries, more, err := s.ReadDir([]byte(name), 0)
		if err != nil || more || namesOf(entries) != want {
			t.Fatalf("ReadDir(%q) = %s, %v, %v\nwant %s", name, namesOf(entries), more, err, want)
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == "link" })
		if e := entries[i]; e.Size != 3 || !e.Modified.Equal(longAgo()) || e.IsDir {
			t.Errorf("link: %+v", e)
		}
	}
	for limit, want := range map[int]string{1: "adir/", 4: "adir/ linkdir/ Zdir/ .hidden"} {
		entries, more, err := s.ReadDir(nil, limit)
		if err != nil || !more || namesOf(entries) != want {
			t.Errorf("limit %d: %s, %v, %v", limit, namesOf(entries), more, err)
		}
	}
	if _, more, _ := s.ReadDir(nil, 13); more {
		t.Error("a limit of exactly what there is says more")
	}
	if entries, _, err := s.ReadDir([]byte("linkdir"), 0); err != nil || namesOf(entries) != "x" {
		t.Errorf("linkdir: %v, %v", entries, err)
	}
	for name, want := range map[string]error{"missing": fs.ErrNotExist, "b.txt": fs.ErrNotExist, "../x": fs.ErrInvalid, "parent": ErrOutside, "/": fs.ErrInvalid} {
		if _, _, err := s.ReadDir([]byte(name), 0); !errors.Is(err, want) {
			t.Errorf("ReadDir(%q) = %v, want %v", name, err, want)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

func TestReadDirFS(t *testing.T) {
	s := New(Options{FS: fstest.MapFS{"b": {}, "a/x": {}, "C": {Data: []byte("12")}, "dev": {Mode: fs.ModeDevice}}})
	entries, more, err := s.ReadDir([]byte("."), 10)
	if err != nil || more || namesOf(entries) != "a/ b C" || entries[2].Size != 2 {
		t.Fatalf("%v, %v, %v", entries, more, err)
	}
}

func TestReadDirWithoutLimit(t *testing.T) {
	s := New(Options{FS: fstest.MapFS{"dir/x": {}}})
	if entries, _, err := s.ReadDir([]byte("dir"), -5); err != nil || len(entries) != 1 {
		t.Fatalf("a negative limit: %v, %v", entries, err)
	}
}

// ReadDir lists a directory below the root, as Index does.
func (s *Store) ReadDir(name []byte, limit int) (entries []Entry, more bool, err error) {
	dir := string(name)
	if dir == "" {
		dir = "."
	}
	if err := s.checkName(dir); err != nil {
		return nil, false, err
	}
	return s.list(dir, limit)
}

func (s *Store) list(dir string, limit int) ([]Entry, bool, error) {
	from, _, err := s.tree(s.now())
	if err != nil {
		return nil, false, clean(err)
	}
	defer from.release()
	return s.listIn(from, dir, limit)
}
