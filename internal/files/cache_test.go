package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// openDescriptors counts the descriptors that this process has below dir.
func openDescriptors(t testing.TB, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc:", err)
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && len(target) >= len(dir) && target[:len(dir)] == dir {
			n++
		}
	}
	return n
}

func TestHitsDoNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	dir := t.TempDir()
	write(t, dir+"/a/directory/with-a-name-that-is-longer-than-any-buffer-on-the-stack/small.txt", text("a", 2000))
	write(t, dir+"/large.txt", text("a", 200_000))
	s := New(Options{Root: dir, Suffixes: suffixes(), CacheDuration: time.Hour})
	for _, name := range []string{"a/directory/with-a-name-that-is-longer-than-any-buffer-on-the-stack/small.txt", "large.txt"} {
		for e := range Encodings {
			key := []byte(name)
			if n := testing.AllocsPerRun(100, func() {
				f, err := s.Open(key, e)
				if err != nil || f.encoding != e {
					t.Fatal(err)
				}
				f.Release()
			}); n != 0 && (runtime.GOOS == "linux" || isInMemory(t, s, name)) {
				t.Errorf("%s as %d: %v allocations", name, e, n)
			}
		}
	}
}

// isInMemory reports whether a file is in memory. Other files are checked for each hit.
func isInMemory(t *testing.T, s *Store, name string) bool {
	file := mustOpen(t, s, name, Identity)
	defer file.Release()
	_, ok := file.Bytes()
	return ok
}

func TestChangesAreSeen(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{1000, 100_000} {
		name := fmt.Sprint(size)
		s := New(Options{Root: dir})
		c := useManual(s)
		write(t, dir+"/"+name, text("one", size))
		wantServed(t, s, name, text("one", size))
		first := s.entries[name].file
		c.advance(10 * time.Second)
		wantServed(t, s, name, text("one", size))
		if s.entries[name].file != first {
			t.Errorf("%s: an unchanged file was opened again", name)
		}
		// The same size and time, but another file.
		replace(t, dir+"/"+name, text("two", size), longAgo())
		c.advance(10 * time.Second)
		wantServed(t, s, name, text("two", size))
		replace(t, dir+"/"+name, text("three", size+1), time.Now())
		c.advance(10 * time.Second)
		wantServed(t, s, name, text("three", size+1))
		if err := os.Remove(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		c.advance(10 * time.Second)
		if _, err := s.Open([]byte(name), Identity); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was removed: %v", name, err)
		}
		if len(s.entries) != 0 {
			t.Errorf("%s: an entry is left", name)
		}
	}
}

// A small file that was replaced by an equal one keeps its File, and is not read again
// at the next request.
func TestEqualFileIsKept(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir})
	c := useManual(s)
	write(t, dir+"/file", []byte("same"))
	wantServed(t, s, "file", []byte("same"))
	first := s.entries["file"].file
	c.advance(10 * time.Second)
	replace(t, dir+"/file", []byte("same"), longAgo())
	wantServed(t, s, "file", []byte("same"))
	now, err := os.Stat(dir + "/file")
	if n := s.entries["file"]; err != nil || n.file != first || n.checked != s.now() || n.isDoubtful || !os.SameFile(n.info, now) {
		t.Errorf("%v; the entry is %+v, at %d", err, n, s.now())
	}
	checkCounts(t, s)
	replace(t, dir+"/file", []byte("another"), longAgo())
	c.advance(10 * time.Second)
	wantServed(t, s, "file", []byte("another"))
	checkCounts(t, s) // the old entry is in no list
}

// A check of a file is a use of it, too.
func TestCheckedFileIsUsed(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir})
	c := useManual(s)
	for _, name := range []string{"a", "b"} {
		write(t, dir+"/"+name, []byte("text"))
		wantServed(t, s, name, []byte("text"))
	}
	c.advance(10 * time.Second)
	wantServed(t, s, "a", []byte("text"))
	if n := s.inMemory.ring.next; n.name != "a" || n.used != s.now() || n.checked != s.now() {
		t.Errorf("%s was used last, at %d, and checked at %d; it is %d", n.name, n.used, n.checked, s.now())
	}
}

// Each entry is checked CacheDuration after its own last check.
func TestEachFileHasItsTime(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", []byte("one"))
	write(t, dir+"/b", []byte("one"))
	s := New(Options{Root: dir})
	c := useManual(s)
	wantServed(t, s, "b", []byte("one")) // the root is checked
	c.advance(5 * time.Second)
	wantServed(t, s, "a", []byte("one"))
	c.advance(5 * time.Second)
	wantServed(t, s, "b", []byte("one")) // checked again
	replace(t, dir+"/a", []byte("two"), longAgo())
	c.advance(4 * time.Second)
	wantServed(t, s, "a", []byte("one"))
	c.advance(time.Second)
	wantServed(t, s, "a", []byte("two"))
}

// shifty is a file that changes during its first two reads.
type shifty struct{ opened int }

type shiftyFile struct {
	fs.File
	s     *shifty
	stats int
}

func (s *shifty) version(n int) fstest.MapFS {
	return fstest.MapFS{"file": {Data: fmt.Append(nil, "version ", n), ModTime: longAgo().Add(time.Duration(n))}}
}

func (s *shifty) Open(name string) (fs.File, error) {
	s.opened++
	f, err := s.version(s.opened).Open(name)
	return &shiftyFile{File: f, s: s}, err
}

func (f *shiftyFile) Stat() (fs.FileInfo, error) {
	if f.stats++; f.stats > 1 && f.s.opened < 4 {
		return fs.Stat(f.s.version(f.s.opened+1), "file")
	}
	return f.File.Stat()
}

func TestChangeWhileReadIntoMemory(t *testing.T) {
	s := &shifty{}
	f := mustOpen(t, New(Options{FS: s}), "file", Identity) // stat opened the first version
	if data, _ := f.Bytes(); string(data) != "version 4" || !f.ModTime().Equal(longAgo().Add(4)) {
		t.Errorf("%q of %v", data, f.ModTime())
	}
	if s.opened != 4 {
		t.Errorf("opened %d times", s.opened)
	}
}

// A file that is rewritten within one tick of the file system's clock has the same
// size and time.
func TestDoubtfulFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir, Suffixes: suffixes()})
	c := useManual(s)
	recent := time.Now()
	writeAt(t, dir+"/file.txt", text("one", 1000), recent)
	wantServed(t, s, "file.txt", text("one", 1000))
	c.advance(10 * time.Second)
	first := s.entries["file.txt"].file
	wantServed(t, s, "file.txt", text("one", 1000))
	if s.entries["file.txt"].file != first {
		t.Error("the same data did not keep the entry")
	}
	writeAt(t, dir+"/file.txt", text("two", 1000), recent)
	c.advance(10 * time.Second)
	wantServed(t, s, "file.txt", text("two", 1000))

	files := fstest.MapFS{"file": {Data: []byte("one")}}
	s = New(Options{FS: files})
	c = useManual(s)
	wantServed(t, s, "file", []byte("one"))
	files["file"] = &fstest.MapFile{Data: []byte("two")}
	wantServed(t, s, "file", []byte("one"))
	c.advance(10 * time.Second)
	wantServed(t, s, "file", []byte("two"))
}

// A large file that changes in place gets new validators at once.
func TestChangeInPlace(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir, CacheDuration: time.Hour})
	write(t, dir+"/file", text("one", 100_000))
	f := mustOpen(t, s, "file", Identity)
	tag := f.etag
	f.Release()
	writeAt(t, dir+"/file", text("two", 100_000), longAgo().Add(time.Second))
	g := mustOpen(t, s, "file", Identity)
	if g.etag == tag {
		t.Error("the entity tag is the old one")
	}
	g.Release()
	wantServed(t, s, "file", text("two", 100_000))
	replace(t, dir+"/file", text("three", 100_000), longAgo().Add(time.Second))
	if runtime.GOOS == "linux" {
		wantServed(t, s, "file", text("three", 100_000)) // the open file has no name any more
	}
}

func TestNotFoundIsNotCached(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir})
	if _, err := s.Open([]byte("file"), Identity); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, dir+"/file", []byte("fine"))
	wantServed(t, s, "file", []byte("fine"))
}

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		write(t, fmt.Sprintf("%s/small%d", dir, i), text("small", 4000))
		write(t, fmt.Sprintf("%s/large%d", dir, i), text("large", 100_000))
	}
	s := New(Options{Root: dir, MemoryLimit: 50_000, SmallFile: 5000, MaxOpen: 7})
	wantServed(t, s, "large0", text("large", 100_000))
	first := s.entries["large0"].file
	for range 2 {
		for i := range 40 {
			wantServed(t, s, fmt.Sprint("small", i), text("small", 4000))
			wantServed(t, s, fmt.Sprint("large", i), text("large", 100_000))
			if s.memory > 50_000 || s.descriptors > 7 {
				t.Fatalf("%d bytes, %d descriptors", s.memory, s.descriptors)
			}
			wantServed(t, s, "large0", text("large", 100_000))
		}
		if s.entries["large0"] == nil || s.entries["large0"].file != first || s.entries["large39"] == nil || s.entries["large20"] != nil {
			t.Error("the cache does not keep what was used last")
		}
	}
	if len(s.entries) < 10 {
		t.Errorf("only %d entries", len(s.entries))
	}
	if n := openDescriptors(t, dir); n != 7+1 {
		t.Errorf("%d descriptors, want 7 and the root", n)
	}
	checkCounts(t, s)
}

// checkCounts recomputes what the cache counts.
func checkCounts(t *testing.T, s *Store) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	memory, descriptors, linked := int64(0), 0, 0
	for _, n := range s.entries {
		memory += n.memory
		descriptors += n.descriptors
		if n.list != s.listOf(n) {
			t.Errorf("%s is in the wrong list", n.name)
		}
	}
	for _, list := range []*usage{&s.inMemory, &s.withDescriptors} {
		for n := list.ring.next; n != &list.ring; n = n.next {
			linked++
		}
	}
	if memory != s.memory || descriptors != s.descriptors || linked != len(s.entries) {
		t.Errorf("counted %d bytes, %d descriptors, %d entries; there are %d, %d, %d", s.memory, s.descriptors, linked, memory, descriptors, len(s.entries))
	}
}

func TestManyEntries(t *testing.T) {
	files := fstest.MapFS{}
	for i := range maxEntries + 100 {
		files[fmt.Sprint(i)] = &fstest.MapFile{}
	}
	s := New(Options{FS: files, MemoryLimit: 1 << 30})
	for i := range maxEntries + 100 {
		mustOpen(t, s, fmt.Sprint(i), Identity).Release()
	}
	if len(s.entries) != maxEntries {
		t.Errorf("%d entries", len(s.entries))
	}
}

func TestEvictedWhileRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", text("a", 100_000))
	write(t, dir+"/b", text("b", 100_000))
	s := New(Options{Root: dir, MaxOpen: 1})
	f := mustOpen(t, s, "a", Identity)
	p, err := f.Part(0, f.Size())
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(p, head); err != nil {
		t.Fatal(err)
	}
	wantServed(t, s, "b", text("b", 100_000))
	if s.entries["a"] != nil || f.refs.Load() != 1 {
		t.Fatalf("not evicted, or %d references", f.refs.Load())
	}
	rest, err := io.ReadAll(p)
	if err != nil || !bytes.Equal(append(head, rest...), text("a", 100_000)) {
		t.Fatalf("%d bytes, %v", len(rest), err)
	}
	if n := openDescriptors(t, dir); n != 3 {
		t.Errorf("%d descriptors, want two files and the root", n)
	}
	p.Close()
	if n := openDescriptors(t, dir); n != 2 {
		t.Errorf("%d descriptors, want a file and the root", n)
	}
}

func TestUnusedIsClosed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/small", text("a", 100))
	write(t, dir+"/large", text("a", 100_000))
	s := New(Options{Root: dir, CacheDuration: 20 * time.Millisecond})
	serve(t, s, "small", Identity)
	serve(t, s, "large", Identity)
	eventually(t, "all is closed", func() bool { return openDescriptors(t, dir) == 0 })
	eventually(t, "the timer stops", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.isArmed && len(s.entries) == 0 && s.memory == 0
	})
	wantServed(t, s, "large", text("a", 100_000))

	gone := make(chan struct{})
	runtime.AddCleanup(s, func(c chan struct{}) { close(c) }, gone)
	s = nil
	eventually(t, "the Store is collected", func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
}

func TestCleanStop(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/small", text("a", 100))
	write(t, dir+"/large", text("a", 100_000))
	stop := make(chan struct{})
	for _, isUsed := range []bool{false, true} {
		s := New(Options{Root: dir, CacheDuration: time.Hour, CleanStop: stop})
		s.tick = time.Millisecond // instead of a second
		if !isUsed {
			serve(t, s, "large", Identity)
			close(stop)
		}
		for range 3 {
			if isUsed {
				serve(t, s, "small", Identity)
				serve(t, s, "large", Identity)
			}
		}
		eventually(t, "all is closed", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return openDescriptors(t, dir) == 0 && len(s.entries) == 0 && !s.isArmed
		})
	}
}

func TestSkipCache(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir, SkipCache: true})
	for _, size := range []int{1000, 100_000} {
		for i := range 3 {
			data := text(fmt.Sprint(i), size)
			write(t, dir+"/file", data)
			wantServed(t, s, "file", data)
		}
	}
	if n := openDescriptors(t, dir); n != 1 || len(s.entries) != 0 {
		t.Errorf("%d descriptors, want the root's; %d entries", n, len(s.entries))
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/file", []byte("another root"))
	wantServed(t, s, "file", []byte("another root"))
}

func BenchmarkOpenHit(b *testing.B) {
	dir := b.TempDir()
	write(b, dir+"/css/small.css", text("a", 1024))
	write(b, dir+"/large.js", text("a", 1<<20))
	s := New(Options{Root: dir, CacheDuration: time.Hour})
	for _, name := range []string{"css/small.css", "large.js"} {
		key := []byte(name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := s.Open(key, Identity)
				if err != nil {
					b.Fatal(err)
				}
				f.Release()
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					f, err := s.Open(key, Identity)
					if err != nil {
						b.Error(err)
						return
					}
					f.Release()
				}
			})
		})
	}
}
