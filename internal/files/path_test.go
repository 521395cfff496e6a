package files

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestNameOf(t *testing.T) {
	for p, want := range map[string]struct {
		name     string
		isFolder bool
		err      error
	}{
		"": {}, "/": {".", true, nil}, "/.": {".", true, nil}, ".": {".", true, nil}, "//": {".", true, nil},
		"//b": {"b", false, nil}, "///b//": {"b", true, nil}, "//./": {".", true, nil},
		"/a": {"a", false, nil}, "a": {"a", false, nil}, "/a/": {"a", true, nil}, "/a/b": {"a/b", false, nil}, "/a/.": {"a", true, nil},
		"/a//b": {"a/b", false, nil}, "/./a": {"a", false, nil}, "/a/b//": {"a/b", true, nil}, "/a./..b": {"a./..b", false, nil},
		"/..": {"", false, ErrUpwards}, "/a/../b": {"", false, ErrUpwards}, "..": {"", false, ErrUpwards}, "/a/..": {"", false, ErrUpwards},
		"/a\x00": {"", false, ErrBadPath}, "\x00": {"", false, ErrBadPath},
	} {
		if name, isFolder, err := NameOf([]byte(p)); string(name) != want.name || isFolder != want.isFolder || err != want.err {
			t.Errorf("%q: %q, %v, %v", p, name, isFolder, err)
		}
	}
}

func TestDecodedPath(t *testing.T) {
	for p, want := range map[string]string{"/a": "/a", "/a%20b": "/a b", "%41": "A", "": "", "?a": "", "/a%2541": "/a%41", "/a?b%20": "/a", "/a#b?c": "/a", "/a%3Fb": "/a?b", "/%": "/%", "/a+b": "/a+b"} {
		if got := DecodedPath(p); got != want {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
}

// TestSingle: only what is a regular file is one.
func TestSingle(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"f": true, ".": false, "none": false} {
		for _, slashes := range []string{"", "/", "//"} {
			folder, base, ok := SingleAt(filepath.Join(dir, name) + slashes)
			if ok != want || ok && (base != name || filepath.Base(folder) != filepath.Base(dir)) {
				t.Errorf("%s%s: %q, %q, %v", name, slashes, folder, base, ok)
			}
		}
	}
	library := fstest.MapFS{"d/f": {}}
	for name, want := range map[string]bool{"d/f": true, "d": false, "": false, "d/none": false} {
		if _, base, ok := SingleOf(library, name); ok != want || ok && base != "f" {
			t.Errorf("%s: %q, %v", name, base, ok)
		}
	}
}

func TestHostFolder(t *testing.T) {
	for host, want := range map[string]string{"h": "h", "h:80": "h:80", "": invalidHost, ".h": invalidHost, "..": invalidHost, "a/b": invalidHost, `a\b`: invalidHost, "a b": invalidHost, "a\x7f": invalidHost} {
		if got := string(HostFolder([]byte(host))); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

func TestStripSegments(t *testing.T) {
	for _, c := range []struct {
		path string
		n    int
		want string
	}{{"/a/b", -1, "/a/b"}, {"/a/b", 0, "/a/b"}, {"/a/b", 1, "/b"}, {"/a/b", 2, ""}, {"/a/", 1, "/"}, {"/a/", 2, ""}, {"", 1, ""}} {
		if got := string(StripSegments([]byte(c.path), c.n)); got != c.want {
			t.Errorf("%q without %d: %q, want %q", c.path, c.n, got, c.want)
		}
	}
}
