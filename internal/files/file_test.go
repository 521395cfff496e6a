package files

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// narrow is an fs.FS whose files implement only fs.File: no ReadAt and, without
// seeks, no Seek.
type narrow struct {
	fs.FS
	seeks bool
}

func (n narrow) Open(name string) (fs.File, error) {
	f, err := n.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if seeker, ok := f.(io.Seeker); ok && n.seeks {
		return struct {
			fs.File
			io.Seeker
		}{f, seeker}, nil
	}
	return struct{ fs.File }{f}, nil
}

// sources returns Stores on every kind of source with the same file "file".
func sources(t *testing.T, data []byte) map[string]*Store {
	dir := t.TempDir()
	write(t, dir+"/file", data)
	memory := fstest.MapFS{"file": {Data: data, ModTime: longAgo()}}
	return map[string]*Store{
		"confined": New(Options{Root: dir}),
		"plain":    New(Options{Root: dir, Unconfined: true}),
		"os.DirFS": New(Options{FS: os.DirFS(dir)}),
		"ReaderAt": New(Options{FS: memory}),
		"Seeker":   New(Options{FS: narrow{memory, true}}),
		"Reader":   New(Options{FS: narrow{memory, false}}),
		"uncached": New(Options{Root: dir, SkipCache: true}),
		"inMemory": New(Options{Root: dir, SmallFile: 1 << 20}),
		"noMemory": New(Options{FS: memory, SmallFile: -1}),
	}
}

func TestParts(t *testing.T) {
	data := text("parts", 150_000)
	for name, s := range sources(t, data) {
		f := mustOpen(t, s, "file", Identity)
		for _, c := range [][2]int64{{0, 150_000}, {0, 0}, {150_000, 0}, {149_999, 1}, {1, 149_999}, {70_000, 5}, {65_535, 65_537}} {
			p, err := f.Part(c[0], c[1])
			if err != nil {
				t.Fatalf("%s: Part%v: %v", name, c, err)
			}
			want := data[c[0] : c[0]+c[1]]
			if err := iotest.TestReader(io.LimitReader(p, 1<<20), want); err != nil {
				t.Errorf("%s: Part%v: %v", name, c, err)
			}
			p.Close()
			p.Close()
			if _, err := p.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: reading a closed Part: %v", name, err)
			}
		}
		for _, c := range [][2]int64{{-1, 1}, {0, -1}, {0, 150_001}, {150_001, 0}, {1, 150_000}, {1 << 62, 1 << 62}, {-1 << 63, 1<<63 - 1}} {
			if _, err := f.Part(c[0], c[1]); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s: Part%v = %v, want ErrInvalid", name, c, err)
			}
		}
		f.Release()
	}
}

func TestOSPart(t *testing.T) {
	data := text("parts", 150_000)
	has := map[string]bool{"confined": true, "plain": true, "os.DirFS": true, "uncached": true}
	for name, s := range sources(t, data) {
		f := mustOpen(t, s, "file", Identity)
		p, err := f.Part(1000, 2000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(p, make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		file, offset, size, ok := p.OSPart()
		if ok != has[name] {
			t.Errorf("%s: OSPart says %v", name, ok)
		}
		if ok {
			got := make([]byte, size)
			if _, err := file.ReadAt(got, offset); err != nil || !bytes.Equal(got, data[1500:3000]) {
				t.Errorf("%s: OSPart gives %d at %d, %v", name, size, offset, err)
			}
		}
		f.Release() // the Part has its own reference
		if rest, err := io.ReadAll(p); err != nil || !bytes.Equal(rest, data[1500:3000]) {
			t.Errorf("%s: after Release: %d bytes, %v", name, len(rest), err)
		}
		p.Close()
		if _, _, _, ok := p.OSPart(); ok {
			t.Errorf("%s: OSPart of a closed Part", name)
		}
	}
}

func TestFileShrinks(t *testing.T) {
	data := text("shrinks", 150_000)
	dir := t.TempDir()
	memory := fstest.MapFS{"file": {Data: data, ModTime: longAgo()}}
	for name, s := range map[string]*Store{
		"confined": New(Options{Root: dir}),
		"os.DirFS": New(Options{FS: os.DirFS(dir)}),
		"Reader":   New(Options{FS: narrow{memory, false}}),
		"Seeker":   New(Options{FS: narrow{memory, true}}),
	} {
		write(t, dir+"/file", data)
		memory["file"] = &fstest.MapFile{Data: data, ModTime: longAgo()}
		f := mustOpen(t, s, "file", Identity)
		p, err := f.Part(100, 149_900)
		if err != nil {
			t.Fatal(err)
		}
		memory["file"] = &fstest.MapFile{Data: data[:10], ModTime: longAgo()}
		if err := os.Truncate(dir+"/file", 1000); err != nil {
			t.Fatal(err)
		}
		_, isShared := f.reopenable()
		got, err := io.ReadAll(p)
		if isShared && (err != io.ErrUnexpectedEOF || !bytes.Equal(got, data[100:1000])) {
			t.Errorf("%s: %d bytes, %v; want 900 and ErrUnexpectedEOF", name, len(got), err)
		}
		p.Close()
		if !isShared {
			if _, err := f.Part(0, 1); !errors.Is(err, ErrChanged) {
				t.Errorf("%s: another Part: %v, want ErrChanged", name, err)
			}
		}
		f.Release()
	}
}

// reopenable tells how the content is held.
func (f *File) reopenable() (reopened, shared bool) {
	return f.reopen != nil, f.closer != nil
}

// Only a build with the invariants looks for references that are counted wrongly. The
// file is closed once in any case.
func TestWrongReferences(t *testing.T) {
	panics := func(f func()) (does bool) {
		defer func() { does = recover() != nil }()
		f()
		return
	}
	o := of(oddFile{})
	closer, _ := o.Open("")
	f := &File{closer: closer}
	f.refs.Store(1)
	f.acquire()
	f.Release()
	if f.Release(); o.closed != 1 {
		t.Errorf("closed %d times by the last release", o.closed)
	}
	if panics(f.Release) != invariants.Enabled {
		t.Error("a release too many")
	}
	f.refs.Store(0)
	if panics(f.acquire) != invariants.Enabled {
		t.Error("use after the release")
	}
	if o.closed != 1 {
		t.Errorf("closed %d times", o.closed)
	}
}
