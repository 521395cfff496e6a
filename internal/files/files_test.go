package files

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice/internal/compress"
)

// longAgo is the time of files that isDoubtful accepts.
func longAgo() time.Time { return time.Date(2020, 2, 3, 4, 5, 6, 123456789, time.UTC) }

// write creates a file that was last changed long ago.
func write(t testing.TB, name string, data []byte) {
	t.Helper()
	writeAt(t, name, data, longAgo())
}

func writeAt(t testing.TB, name string, data []byte, modified time.Time) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, modified, modified); err != nil {
		t.Fatal(err)
	}
}

// replace replaces the file of a name, as deployments should.
func replace(t testing.TB, name string, data []byte, modified time.Time) {
	t.Helper()
	writeAt(t, name+".new", data, modified)
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links:", err)
	}
}

func mustOpen(t testing.TB, s *Store, name string, e Encoding) *File {
	t.Helper()
	f, err := s.Open([]byte(name), e)
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	return f
}

// bytesOf reads a whole File.
func bytesOf(f *File) ([]byte, error) {
	if data, ok := f.Bytes(); ok {
		return data, nil
	}
	p, err := f.Part(0, f.Size())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return io.ReadAll(p)
}

// serve opens, reads and releases.
func serve(t testing.TB, s *Store, name string, e Encoding) []byte {
	t.Helper()
	f := mustOpen(t, s, name, e)
	defer f.Release()
	data, err := bytesOf(f)
	if err != nil {
		t.Fatalf("reading %q: %v", name, err)
	}
	return data
}

func wantServed(t testing.TB, s *Store, name string, want []byte) {
	t.Helper()
	if got := serve(t, s, name, Identity); !bytes.Equal(got, want) {
		t.Fatalf("%q has %d bytes %.40q, want %d bytes %.40q", name, len(got), got, len(want), want)
	}
}

// text is compressible data, different for each seed.
func text(seed string, size int) []byte {
	return []byte(strings.Repeat(seed+" and so on, and so forth. ", size/20+1)[:size])
}

// manual is a clock that tests set.
type manual struct{ nanos atomic.Int64 }

func useManual(s *Store) *manual {
	c := &manual{}
	c.nanos.Store(int64(time.Hour))
	s.now = c.nanos.Load
	return c
}

func (c *manual) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// eventually polls for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatal("never came true:", what)
}

func decode(t testing.TB, data []byte, e Encoding) []byte {
	t.Helper()
	out, err := compress.AppendDecoded(nil, data, methods[e].coding, 64<<20)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return out
}

func suffixes() [Encodings]string {
	return [Encodings]string{Gzip: ".x.gz", Brotli: ".x.br", Zstd: ".x.zst"}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	small, large := text("small", 3000), text("large", 200_000)
	write(t, dir+"/small.css", small)
	write(t, dir+"/sub/large.js", large)
	write(t, dir+"/empty", nil)
	write(t, dir+"/edge.txt", text("edge", 24<<10))
	s := New(Options{Root: dir})
	for _, c := range []struct {
		name, contentType string
		size              int64
		inMemory          bool
	}{
		{"small.css", "text/css; charset=utf-8", 3000, true},
		{"sub/large.js", "text/javascript; charset=utf-8", 200_000, false},
		{"empty", "text/plain; charset=utf-8", 0, true},
		{"edge.txt", "text/plain; charset=utf-8", 24 << 10, true},
	} {
		for range 2 { // opened, cached
			f := mustOpen(t, s, c.name, Identity)
			_, inMemory := f.Bytes()
			if f.Size() != c.size || f.contentType != c.contentType || inMemory != c.inMemory || f.encoding != Identity {
				t.Errorf("%s: size %d, type %q, in memory %v", c.name, f.Size(), f.contentType, inMemory)
			}
			if !f.ModTime().Equal(longAgo()) || string(f.lastModified) != "Mon, 03 Feb 2020 04:05:06 GMT" {
				t.Errorf("%s: modified %v, %q", c.name, f.ModTime(), f.lastModified)
			}
			f.Release()
		}
	}
	wantServed(t, s, "small.css", small)
	wantServed(t, s, "sub/large.js", large)
	wantServed(t, s, "empty", nil)
}

func TestETag(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", []byte("12345"))
	write(t, dir+"/b", []byte("123456"))
	writeAt(t, dir+"/c", []byte("12345"), longAgo().Add(time.Second))
	s := New(Options{Root: dir})
	seen := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		tag := mustOpen(t, s, name, Identity).etag
		if len(tag) < 6 || tag[:3] != `W/"` || tag[len(tag)-1] != '"' {
			t.Fatalf("entity tag %q", tag)
		}
		if seen[tag] != "" {
			t.Fatalf("%s and %s have the same entity tag", name, seen[tag])
		}
		seen[tag] = name
		if again := mustOpen(t, New(Options{Root: dir}), name, Identity).etag; again != tag {
			t.Errorf("another Store says %q, not %q", again, tag)
		}
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", []byte("x"))
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	notUTF8 := fs.ErrNotExist // an ordinary name
	if runtime.GOOS == "windows" {
		notUTF8 = fs.ErrInvalid
	}
	for _, unconfined := range []bool{false, true} {
		s := New(Options{Root: dir, Unconfined: unconfined})
		for _, c := range []struct {
			name string
			want error
		}{
			{"", ErrIsDirectory}, {".", ErrIsDirectory}, {"sub", ErrIsDirectory},
			{"missing", fs.ErrNotExist}, {"sub/missing", fs.ErrNotExist}, {"missing/file", fs.ErrNotExist},
			{"file/below", fs.ErrNotExist},
			{strings.Repeat("a", 300), fs.ErrNotExist}, {strings.Repeat("a/", 2000) + "a", fs.ErrNotExist},
			{strings.Repeat("a", 4097), fs.ErrInvalid},
			{"/file", fs.ErrInvalid}, {"sub/../file", fs.ErrInvalid}, {"file\x00", fs.ErrInvalid}, {"\xff", notUTF8},
		} {
			_, err := s.Open([]byte(c.name), Identity)
			if !errors.Is(err, c.want) {
				t.Errorf("Open(%.40q) = %v, want %v", c.name, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("the error tells the path: %v", err)
			}
		}
		if _, err := s.Open([]byte("file"), Encodings+3); err != nil {
			t.Errorf("an unknown encoding: %v", err)
		}
	}
}

func TestNoPermission(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", []byte("x"))
	if err := os.Chmod(dir+"/file", 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(dir + "/file"); err == nil {
		f.Close()
		t.Skip("this user may read everything")
	}
	_, err := New(Options{Root: dir}).Open([]byte("file"), Identity)
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrOutside) || errors.Is(err, ErrNotRegular) {
		t.Fatalf("error %v", err)
	}
}

func TestSocketIsNotOpened(t *testing.T) {
	dir, err := os.MkdirTemp("", "files") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if _, err := New(Options{Root: dir}).Open([]byte("s"), Identity); !errors.Is(err, ErrNotRegular) {
		t.Fatalf("error %v", err)
	}
}

func TestFS(t *testing.T) {
	small, large := text("small", 500), text("large", 100_000)
	for _, modified := range []time.Time{{}, longAgo()} {
		files := fstest.MapFS{
			"a/small.html": {Data: small, ModTime: modified},
			"large.html":   {Data: large, ModTime: modified},
			"device":       {Mode: fs.ModeDevice},
		}
		s := New(Options{FS: files, Suffixes: suffixes()})
		for range 2 {
			wantServed(t, s, "a/small.html", small)
			wantServed(t, s, "large.html", large)
		}
		for name, want := range map[string]error{"a": ErrIsDirectory, "b": fs.ErrNotExist, "device": ErrNotRegular, "../a": fs.ErrInvalid} {
			if _, err := s.Open([]byte(name), Identity); !errors.Is(err, want) {
				t.Errorf("Open(%q) = %v, want %v", name, err, want)
			}
		}
		f, g := mustOpen(t, s, "a/small.html", Identity), mustOpen(t, s, "large.html", Identity)
		if hasTime := !modified.IsZero(); f.etag == "" || (f.lastModified != nil) != hasTime || (g.etag != "") != hasTime {
			t.Errorf("time %v: entity tags %q %q, date %q", modified, f.etag, g.etag, f.lastModified)
		}
		for e := Gzip; e < Encodings; e++ {
			z := mustOpen(t, s, "large.html", e)
			if data, ok := z.Bytes(); !ok || z.encoding != e || !bytes.Equal(decode(t, data, e), large) {
				t.Errorf("encoding %d: got %d in memory %v", e, z.encoding, ok)
			}
		}
	}
}

// exhausted is an fs.FS that fails for lack of descriptors while the cache has some.
type exhausted struct {
	fs.FS
	s *Store
}

func (x *exhausted) Open(name string) (fs.File, error) {
	if name == "b" && x.s.descriptors > 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return x.FS.Open(name)
}

func TestTooManyOpenFiles(t *testing.T) {
	data := text("a", 100_000)
	x := &exhausted{FS: fstest.MapFS{"a": {Data: data}, "b": {Data: data}}}
	x.s = New(Options{FS: x})
	wantServed(t, x.s, "a", data)
	wantServed(t, x.s, "b", data)
}

// TestNamesOfBytes: files whose names are not UTF-8 are served, listed and encoded.
func TestNamesOfBytes(t *testing.T) {
	dir := t.TempDir()
	const name = "a\xffb.txt"
	if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("text "), 200), 0o644); err != nil {
		t.Skip("no such names here:", err)
	}
	for _, unconfined := range []bool{false, true} {
		s := New(Options{Root: dir, Unconfined: unconfined, NoCopies: true, Suffixes: [Encodings]string{Gzip: ".gz"}})
		if f := mustOpen(t, s, name, Gzip); f.encoding != Gzip || len(decode(t, f.data, Gzip)) != 1000 {
			t.Errorf("unconfined %v: encoding %d", unconfined, f.encoding)
		}
		if page := mustIndex(t, s, ".", "/", Identity); !bytes.Contains(page.data, []byte(`href="./a%FFb.txt"><bdi>a`+"\uFFFD"+`b.txt<`)) {
			t.Errorf("unconfined %v: not listed: %s", unconfined, page.data[len(page.data)-400:])
		}
		for _, bad := range []string{"\xff/../" + name, "\xff//x", "./" + name, name + "/", "/" + name} {
			if _, err := s.Open([]byte(bad), Identity); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	if _, err := New(Options{FS: os.DirFS(dir)}).Open([]byte(name), Identity); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("an fs.FS has no such names: %v", err) // see fs.ValidPath
	}
}
