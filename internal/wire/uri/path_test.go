package uri

import (
	"bytes"
	"path"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

func TestURIPathNormalising(t *testing.T) {
	for original, want := range map[string]string{
		"": "/", "/": "/", "a": "/a", "//": "/", "///": "/", "/a//b///c//": "/a/b/c/",
		"/./a": "/a", "/a/./b": "/a/b", "/a/././b": "/a/b", "/.": "/", "/a/.": "/a/", "/a/./.": "/a/", "/a//.": "/a/", "/a/%2E": "/a/", ".": "/", "/a.": "/a.",
		"/..": "/", "/../": "/", "/../..": "/", "/../../a": "/a", "/a/..": "/", "/a/b/..": "/a/", "/a/../b": "/b", "/a/b/../../c": "/c", "/a//../b": "/b",
		"/a/.//../b": "/b", "..": "/", "../a": "/a", "a/../b": "/b",
		"/...": "/...", "/a/..b": "/a/..b", "/a/b..": "/a/b..", "/.a": "/.a",
		"/%41": "/A", "/a%2Fb//c/../d": "/a/b/d", "/%2e%2e/a": "/a", "/a/%2E%2E": "/", "/a%2F..%2Fb": "/b", "/%2F%2Fa": "/a", "%2Fa": "/a", "%2e%2e/a": "/a",
		"/a%00b": "/a\x00b", "/%252e%252e/a": "/%2e%2e/a", "/%": "/%", "/%zz": "/%zz", "/a+b": "/a+b", "/a\\..\\b": "/a\\..\\b", "/a%5C..%5Cb": "/a\\..\\b",
	} {
		var u URI
		u.SetPath([]byte(original))
		if got := string(u.Path()); got != want {
			t.Errorf("%q: %q, want %q", original, got, want)
		}
		if got := string(u.PathOriginal()); got != original {
			t.Errorf("%q: PathOriginal %q", original, got)
		}
	}
}

// FuzzPathNormalising checks what a path must never be, that the fast path
// agrees with the slow one, that normalising twice changes nothing, and package
// path as a second opinion.
func FuzzPathNormalising(f *testing.F) {
	for _, s := range []string{"/a/../b", "/a%2f..%2f..", "//.//", "..", "/%2e%2E/x/.", "/a/..//..", "/%", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, original []byte) {
		normal := AppendNormalPath([]byte("x"), original)[1:]
		if len(normal) == 0 || normal[0] != '/' || bytes.Contains(normal, []byte("//")) ||
			strings.Contains(string(normal)+"/", "/../") || strings.Contains(string(normal)+"/", "/./") {
			t.Fatalf("%q is normalised to %q", original, normal)
		}
		if isNormalPath(original) && !bytes.Equal(original, normal) {
			t.Fatalf("%q counts as normal, but is normalised to %q", original, normal)
		}
		if again := removeDotSegments(bytes.Clone(normal)); !bytes.Equal(again, normal) {
			t.Fatalf("%q, %q, again %q", original, normal, again)
		}
		if want, got := path.Clean("/"+decodedForTest(original)), path.Clean(string(normal)); got != want {
			t.Fatalf("%q is normalised to %q, package path says %q", original, got, want)
		}
	})
}

// decodedForTest decodes percent-encodings.
func decodedForTest(s []byte) string {
	return string(ascii.AppendUnescapedArg(nil, bytes.ReplaceAll(s, []byte("+"), []byte("%2B"))))
}

func BenchmarkNormalisePath(b *testing.B) {
	for name, s := range map[string]string{"plain": "/api/v1/users/12345", "dots": "/a/b/../c/./d//e", "escaped": "/a%20b/c%2Fd"} {
		b.Run(name, func(b *testing.B) {
			var u URI
			path := []byte(s)
			for b.Loop() {
				u.SetPath(path)
			}
		})
	}
}

func TestLastPathSegment(t *testing.T) {
	for path, want := range map[string]string{"": "", "/": "", "/a": "a", "/a/": "", "/a/b.c": "b.c", "/a%2Fb": "b", "/a/..": "", "a": "a"} {
		var u URI
		u.SetPath([]byte(path))
		if got := string(u.LastPathSegment()); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// TestAppendAfterPath: the path stays, whether or not it is in normal form, and the parts may be
// those of the URI.
func TestAppendAfterPath(t *testing.T) {
	for _, path := range []string{"/a/b", "/a//b", "/%61/b"} {
		var u URI
		u.SetPath([]byte(path))
		for range 2 { // the memory grows once
			if got := string(u.AppendAfterPath([]byte("folder"), u.Path())); got != "/folder/a/b" || string(u.Path()) != "/a/b" {
				t.Errorf("%q: %q, and the path is %q", path, got, u.Path())
			}
		}
	}
}
