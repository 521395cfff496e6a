package files

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice/internal/compress"
)

func wantEncoded(t *testing.T, s *Store, name string, e Encoding, want []byte) *File {
	t.Helper()
	f := mustOpen(t, s, name, e)
	data, err := bytesOf(f)
	if err != nil || f.encoding != e || !bytes.Equal(decode(t, data, e), want) {
		t.Fatalf("%s as %d: encoding %d, %d bytes, %v", name, e, f.encoding, len(data), err)
	}
	return f
}

// incompressible returns data that encoding does not shrink.
func incompressible(t *testing.T, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	return data
}

func noTemporaries(t *testing.T, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error {
		if strings.Contains(name, temporaryPrefix) {
			t.Error("a temporary file is left:", name)
		}
		return nil
	})
}

func TestEncoded(t *testing.T) {
	for _, o := range []Options{{}, {Unconfined: true}, {CompressRoot: "copies"}, {CompressRoot: "copies", Unconfined: true}, {SkipCache: true}} {
		dir := t.TempDir()
		o.Root, o.Suffixes = dir+"/root", suffixes()
		copies := o.Root
		if o.CompressRoot != "" {
			o.CompressRoot = dir + "/" + o.CompressRoot + "/deep"
			copies = o.CompressRoot
		}
		random := incompressible(t, 100_000)
		hard := append(random[:100_000:100_000], text("easy", 500_000)...)
		write(t, o.Root+"/a/small.txt", text("small", 5000))
		write(t, o.Root+"/large.txt", hard)
		if err := os.Chmod(o.Root+"/large.txt", 0o640); err != nil {
			t.Fatal(err)
		}
		s := New(o)
		tags := map[string]bool{}
		for e := Gzip; e < Encodings; e++ {
			for name, want := range map[string][]byte{"a/small.txt": text("small", 5000), "large.txt": hard} {
				original := mustOpen(t, s, name, Identity)
				for range 2 {
					f := wantEncoded(t, s, name, e, want)
					_, inMemory := f.Bytes()
					if inMemory != (name == "a/small.txt") {
						t.Errorf("%s as %d in memory: %v", name, e, inMemory)
					}
					if f.contentType != original.contentType || !f.ModTime().Equal(longAgo()) || f.etag == original.etag || f.etag == "" ||
						string(f.lastModified) != string(original.lastModified) || f.lastModified == nil {
						t.Errorf("%s as %d: %q %v %q", name, e, f.contentType, f.ModTime(), f.etag)
					}
					tags[f.etag] = true
					f.Release()
				}
				original.Release()
				info, err := os.Stat(copies + "/" + name + s.options.Suffixes[e])
				if err != nil || !info.ModTime().Equal(longAgo()) || name == "large.txt" && info.Mode() != 0o640 {
					t.Fatalf("the copy: %v, %v", info, err)
				}
			}
		}
		if len(tags) != 6 {
			t.Errorf("entity tags %v", tags)
		}
		noTemporaries(t, dir)
		checkCounts(t, s)
		if o.SkipCache && len(s.entries) != 0 {
			t.Error("copies are cached")
		}
	}
}

func TestExistingCopies(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir, Suffixes: suffixes()})
	const fake = "not encoded at all, so that it is known"
	whole := longAgo().Truncate(time.Second)
	for _, c := range []struct {
		name             string
		original, copied time.Time
		isUsed           bool
	}{
		{"same.txt", longAgo(), longAgo(), true},
		{"second.txt", longAgo(), whole, true},
		{"micro.txt", longAgo(), longAgo().Truncate(time.Microsecond), true},
		{"whole.txt", whole, whole, true},
		{"nano.txt", longAgo(), longAgo().Add(-time.Nanosecond), false},
		{"older.txt", longAgo(), whole.Add(-time.Second), false},
		{"newer.txt", longAgo(), whole.Add(time.Second), false},
		{"now.txt", longAgo(), time.Now(), false},
	} {
		writeAt(t, dir+"/"+c.name, text("original", 5000), c.original)
		writeAt(t, dir+"/"+c.name+".x.gz", []byte(fake), c.copied)
		f := mustOpen(t, s, c.name, Gzip)
		data, _ := f.Bytes()
		if isUsed := string(data) == fake; isUsed != c.isUsed || f.encoding != Gzip {
			t.Errorf("%s: used %v", c.name, isUsed)
		}
		if onDisk, _ := os.ReadFile(dir + "/" + c.name + ".x.gz"); (string(onDisk) == fake) != c.isUsed {
			t.Errorf("%s: the copy on the disk is %.20q", c.name, onDisk)
		}
		f.Release()
	}
	for name, data := range map[string][]byte{"empty.txt": nil, "big.txt": text("x", 4900)} {
		write(t, dir+"/"+name, text("original", 5000))
		write(t, dir+"/"+name+".x.gz", data)
		wantEncoded(t, s, name, Gzip, text("original", 5000)).Release()
	}
	// A link is never used as a copy, wherever it leads, and is not replaced.
	write(t, dir+"/link.txt", text("original", 5000))
	write(t, dir+"/fake", []byte(fake))
	symlink(t, "fake", dir+"/link.txt.x.gz")
	wantEncoded(t, s, "link.txt", Gzip, text("original", 5000)).Release()
	if target, err := os.Readlink(dir + "/link.txt.x.gz"); err != nil || target != "fake" {
		t.Error("the link was replaced:", err)
	}
	write(t, dir+"/dir.txt", text("original", 5000))
	write(t, dir+"/dir.txt.x.gz/file", nil)
	wantEncoded(t, s, "dir.txt", Gzip, text("original", 5000)).Release()
	noTemporaries(t, dir)
}

func TestNotEncoded(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/tiny.txt", text("x", 255))
	write(t, dir+"/huge.txt", text("x", 10_001))
	write(t, dir+"/image.png", text("x", 5000))
	write(t, dir+"/random.txt", incompressible(t, 5000))
	write(t, dir+"/large.txt", incompressible(t, 9999))
	write(t, dir+"/text.x.gz", text("x", 5000))
	write(t, dir+"/good.txt", text("x", 5000))
	for _, skip := range []bool{false, true} {
		s := New(Options{Root: dir, Suffixes: [Encodings]string{Gzip: ".x.gz"}, MaxEncode: 10_000, SmallFile: 6000, SkipCache: skip,
			IsEncodable: func(contentType string) bool { return contentType != "image/png" }})
		for _, name := range []string{"tiny.txt", "huge.txt", "image.png", "random.txt", "large.txt", "text.x.gz"} {
			for range 2 {
				f := mustOpen(t, s, name, Gzip)
				if f.encoding != Identity {
					t.Errorf("%s is encoded", name)
				}
				f.Release()
			}
			if n := s.entries[name]; n == nil || !n.variants[Gzip].isKnown {
				t.Errorf("%s is tried again each time", name)
			}
		}
		if f := mustOpen(t, s, "good.txt", Brotli); f.encoding != Identity {
			t.Error("an encoding without suffix is offered")
		}
		checkCounts(t, s)
	}
	if left, _ := filepath.Glob(dir + "/*.txt.x.gz"); len(left) != 0 {
		t.Errorf("copies %v", left)
	}
	write(t, dir+"/huge.txt.x.gz", []byte("made by somebody else"))
	if f := mustOpen(t, New(Options{Root: dir, Suffixes: suffixes(), MaxEncode: 10_000}), "huge.txt", Gzip); f.encoding != Gzip {
		t.Error("an existing copy of a large file is not used")
	}
}

func TestChangedOriginalIsEncodedAgain(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{5000, 100_000} {
		s := New(Options{Root: dir, Suffixes: suffixes()})
		c := useManual(s)
		write(t, dir+"/file.txt", text("one", size))
		first := wantEncoded(t, s, "file.txt", Zstd, text("one", size))
		replace(t, dir+"/file.txt", text("two", size), longAgo().Add(time.Second))
		c.advance(10 * time.Second)
		second := wantEncoded(t, s, "file.txt", Zstd, text("two", size))
		if first.etag == second.etag {
			t.Error("the entity tag is the old one")
		}
		first.Release()
		second.Release()
		wantEncoded(t, New(Options{Root: dir, Suffixes: suffixes()}), "file.txt", Zstd, text("two", size)).Release()
	}
}

// A cached copy that changes or is removed is not served with the old validators.
func TestChangedCopy(t *testing.T) {
	dir := t.TempDir()
	random := incompressible(t, 100_000)
	data := append(random[:100_000:100_000], text("easy", 200_000)...)
	write(t, dir+"/file.txt", data)
	s := New(Options{Root: dir, Suffixes: suffixes(), CacheDuration: time.Hour})
	wantEncoded(t, s, "file.txt", Gzip, data).Release()
	if err := os.Truncate(dir+"/file.txt.x.gz", 10); err != nil {
		t.Fatal(err)
	}
	wantEncoded(t, s, "file.txt", Gzip, data).Release()
	if err := os.Remove(dir + "/file.txt.x.gz"); err != nil {
		t.Fatal(err)
	}
	wantEncoded(t, s, "file.txt", Gzip, data).Release()
}

func TestKeptInMemory(t *testing.T) {
	dir := t.TempDir()
	data := text("a", 200_000)
	write(t, dir+"/root/file.txt", data)
	write(t, dir+"/blocked", nil) // a file where a directory is needed
	for what, o := range map[string]Options{
		"CompressRoot cannot be made":         {Root: dir + "/root", CompressRoot: dir + "/blocked/copies"},
		"CompressRoot is a file":              {Root: dir + "/root", CompressRoot: dir + "/blocked"},
		"CompressRoot is a file, unconfined":  {Root: dir + "/root", CompressRoot: dir + "/blocked", Unconfined: true},
		"fs.FS":                               {FS: os.DirFS(dir + "/root"), CompressRoot: dir + "/not-used"},
		"fs.FS without cache":                 {FS: os.DirFS(dir + "/root"), SkipCache: true},
		"fs.FS without times":                 {FS: fstest.MapFS{"file.txt": {Data: data}}},
		"fs.FS with files that have but Read": {FS: narrow{os.DirFS(dir + "/root"), false}},
	} {
		o.Suffixes = suffixes()
		s := New(o)
		for e := Gzip; e < Encodings; e++ {
			f := wantEncoded(t, s, "file.txt", e, data)
			again := mustOpen(t, s, "file.txt", e)
			if _, inMemory := f.Bytes(); !inMemory || again != f {
				t.Errorf("%s: in memory %v, the same again %v", what, inMemory, again == f)
			}
			f.Release()
			again.Release()
		}
		checkCounts(t, s)
	}
	if left, _ := filepath.Glob(dir + "/*/*"); len(left) != 1 {
		t.Errorf("written: %v", left)
	}
	s := New(Options{FS: os.DirFS(dir + "/root"), Suffixes: suffixes(), MemoryLimit: 100})
	if f := mustOpen(t, s, "file.txt", Gzip); f.encoding != Identity {
		t.Error("encoded data beyond the limit is kept")
	}
}

func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file.txt", text("a", 5000))
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	if f, err := os.Create(dir + "/probe"); err == nil {
		f.Close()
		os.Remove(dir + "/probe")
		t.Skip("this user may write everywhere")
	}
	s := New(Options{Root: dir, Suffixes: suffixes()})
	wantEncoded(t, s, "file.txt", Gzip, text("a", 5000)).Release()
}

func TestOldTemporariesGo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/sub/file.txt", text("a", 5000))
	write(t, dir+"/sub/"+temporaryPrefix+"OLD"+temporarySuffix, nil)
	writeAt(t, dir+"/sub/"+temporaryPrefix+"NEW"+temporarySuffix, nil, time.Now())
	write(t, dir+"/sub/other.tmp", nil)
	s := New(Options{Root: dir, Suffixes: suffixes()})
	wantEncoded(t, s, "sub/file.txt", Gzip, text("a", 5000)).Release()
	left, _ := filepath.Glob(dir + "/sub/" + temporaryPrefix + "*")
	if len(left) != 1 || !strings.Contains(left[0], "NEW") {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(dir + "/sub/other.tmp"); err != nil {
		t.Error(err)
	}
}

// gate is an fs.FS whose files block their readers until it is opened.
type gate struct {
	fs.FS
	opens chan struct{} // one element for each file opened for encoding
	open  chan struct{}
}

type gatedFile struct {
	fs.File
	g *gate
}

func (g *gate) Open(name string) (fs.File, error) {
	f, err := g.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

func (f *gatedFile) Read(b []byte) (int, error) {
	if len(b) > sniffed {
		f.g.opens <- struct{}{}
		<-f.g.open
	}
	return f.File.Read(b)
}

func TestOneEncodesOthersGetIdentity(t *testing.T) {
	type variant struct {
		name string
		e    Encoding
	}
	for what, c := range map[string]struct {
		encoders int
		others   []variant
	}{
		"the same file":   {100, []variant{{"a.txt", Gzip}}},
		"no free encoder": {1, []variant{{"a.txt", Gzip}, {"a.txt", Zstd}, {"b.txt", Gzip}}},
	} {
		data := text("a", 200_000)
		g := &gate{FS: fstest.MapFS{"a.txt": {Data: data, ModTime: longAgo()}, "b.txt": {Data: data, ModTime: longAgo()}},
			opens: make(chan struct{}, 1000), open: make(chan struct{})}
		s := New(Options{FS: g, Suffixes: suffixes()})
		s.encoders = make(chan struct{}, c.encoders)
		var wait sync.WaitGroup
		wait.Go(func() { wantEncoded(t, s, "a.txt", Gzip, data).Release() })
		<-g.opens // the first call is encoding
		done := make(chan struct{})
		wait.Go(func() {
			defer close(done)
			for range 10 {
				for _, other := range c.others {
					if f := mustOpen(t, s, other.name, other.e); f.encoding != Identity {
						t.Errorf("%s: %v is encoded", what, other)
					}
				}
			}
		})
		select {
		case <-done:
		case <-g.opens:
			t.Errorf("%s: another one encodes", what)
		}
		close(g.open)
		wait.Wait()
		for _, other := range c.others {
			wantEncoded(t, s, other.name, other.e, data).Release()
		}
		if len(s.flights) != 0 || len(s.encoders) != 0 {
			t.Errorf("%s: a flight is left", what)
		}
	}
}

// Each encoding has its coding, and that has its name.
func TestCodings(t *testing.T) {
	for e, want := range map[Encoding]struct {
		coding compress.Coding
		name   string
	}{
		Gzip: {compress.Gzip, "gzip"}, Brotli: {compress.Brotli, "br"}, Zstd: {compress.Zstd, "zstd"},
	} {
		if got := EncodingOf(want.coding); got != e {
			t.Errorf("%v is made by %v, want %v", want.coding, got, e)
		}
		if got := e.ContentCoding(); got != want.name {
			t.Errorf("%v has the name %q", e, got)
		}
	}
	if got, name := EncodingOf(compress.Deflate), Identity.ContentCoding(); got != Identity || name != "" {
		t.Errorf("deflate is made by %v; no encoding has the name %q", got, name)
	}
}

// A copy or a variant that is there by the time that a file would be encoded is used. A
// file that is being encoded is not encoded twice.
func TestEncodedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file.txt", text("a", 5000))
	write(t, dir+"/file.txt"+suffixes()[Gzip], []byte("their copy"))
	s := New(Options{Root: dir, Suffixes: suffixes()})
	original := mustOpen(t, s, "file.txt", Identity)
	defer original.Release()
	key := flight{"file.txt", Gzip}
	s.flights[key] = struct{}{}
	if f := s.makeOnce(plain{dir}, "file.txt", original, Gzip, s.now()); f != nil {
		t.Error("encoded while another caller does so")
	}
	delete(s.flights, key)
	first := s.makeOnce(plain{dir}, "file.txt", original, Gzip, s.now())
	if first == nil || string(first.data) != "their copy" || first.encoding != Gzip {
		t.Fatalf("the copy is not used: %+v", first)
	}
	write(t, dir+"/file.txt"+suffixes()[Gzip], []byte("a later one"))
	if again := s.makeOnce(plain{dir}, "file.txt", original, Gzip, s.now()); again != first {
		t.Errorf("the variant is not used: %+v", again)
	}
	if len(s.flights) != 0 || len(s.encoders) != 0 {
		t.Errorf("%d flights, %d encoders are left", len(s.flights), len(s.encoders))
	}
	checkCounts(t, s)
}

// An encoded file that is too large for the memory, and cannot be stored, is not made again.
func TestEncodedFileTooLargeForMemory(t *testing.T) {
	data := append(incompressible(t, 3000), make([]byte, 100_000)...)
	files := fstest.MapFS{"file.txt": {Data: data, ModTime: longAgo()}}
	for limit, want := range map[int64]Encoding{5000: Identity, 20_000: Gzip} {
		s := New(Options{FS: files, MemoryLimit: limit, Suffixes: suffixes(), IsEncodable: func(string) bool { return true }})
		f := mustOpen(t, s, "file.txt", Gzip)
		if f.encoding != want {
			t.Errorf("with %d bytes the encoding is %d, want %d", limit, f.encoding, want)
		}
		f.Release()
		if v := s.entries["file.txt"].variants[Gzip]; !v.isKnown || (v.file != nil) != (want == Gzip) {
			t.Errorf("with %d bytes the variant is %+v", limit, v)
		}
	}
}
