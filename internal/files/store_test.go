package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// swept runs the timer's function.
func swept(s *Store) {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.sweep()
}

// state describes what a Store holds.
func state(s *Store) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root.mu.Lock()
	defer s.root.mu.Unlock()
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	return fmt.Sprintf("%d entries, root %v, copies %v, armed %v", len(s.entries), s.root.current != nil, s.copies.current != nil, s.isArmed)
}

// Everything is closed CacheDuration after its last use, and not before.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/root/small.txt", text("a", 5000))
	write(t, dir+"/root/large", text("a", 100_000))
	s := New(Options{Root: dir + "/root", CompressRoot: dir + "/copies", CacheDuration: time.Hour, Suffixes: suffixes()})
	c := useManual(s)
	want := func(what, want string) {
		t.Helper()
		if got := state(s); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	want("new", "0 entries, root false, copies false, armed false")
	serve(t, s, "large", Identity)
	want("opened", "1 entries, root true, copies false, armed true")
	serve(t, s, "small.txt", Gzip)
	want("encoded", "2 entries, root true, copies true, armed true")
	c.advance(30 * time.Minute)
	serve(t, s, "small.txt", Gzip)
	c.advance(30*time.Minute - 1)
	swept(s)
	want("an instant before", "2 entries, root true, copies true, armed true")
	c.advance(1)
	swept(s)
	want("when it is time", "1 entries, root false, copies false, armed true")
	c.advance(30 * time.Minute)
	swept(s)
	want("all over", "0 entries, root false, copies false, armed false")
	if _, err := s.Open([]byte("missing"), Identity); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	want("a handle alone", "0 entries, root true, copies false, armed true")
	c.advance(time.Hour)
	swept(s)
	want("at the end", "0 entries, root false, copies false, armed false")
	checkCounts(t, s)
}

// The handle of the copies' folder alone keeps the timer running.
func TestSweepOfCopies(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/root/a.txt", text("a", 5000))
	write(t, dir+"/copies/file", nil)
	s := New(Options{Root: dir + "/root", CompressRoot: dir + "/copies", CacheDuration: time.Hour, Suffixes: suffixes()})
	useManual(s)
	at := s.copyFolder(nil, s.now())
	at.release()
	if got := state(s); got != "0 entries, root false, copies true, armed true" {
		t.Error(got)
	}
	swept(s)
	if got := state(s); got != "0 entries, root false, copies true, armed true" {
		t.Errorf("not used for no time: %s", got)
	}
}

// With an fs.FS only files must be closed.
func TestTimerOfAnFS(t *testing.T) {
	s := New(Options{FS: fstest.MapFS{"file": {}}})
	_, _ = s.Open([]byte("missing"), Identity)
	if s.isArmed {
		t.Error("there is nothing to drop")
	}
	mustOpen(t, s, "file", Identity).Release()
	if !s.isArmed {
		t.Error("there is something to drop")
	}
}

// When the cache is stopped, nothing is added any more, and a sweep empties it.
func TestStoppedStore(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file.txt", text("a", 5000))
	stop := make(chan struct{})
	s := New(Options{Root: dir, CacheDuration: time.Hour, CleanStop: stop, Suffixes: suffixes()})
	useManual(s)
	serve(t, s, "file.txt", Gzip)
	close(stop)
	swept(s)
	if got := state(s); got != "0 entries, root false, copies false, armed false" {
		t.Errorf("after the stop: %s", got)
	}
	wantServed(t, s, "file.txt", text("a", 5000))
	swept(s)
	if got := state(s); got != "0 entries, root false, copies false, armed false" {
		t.Errorf("later: %s", got)
	}
}

// Names and data count as memory, also those of variants.
func TestMemoryIsCounted(t *testing.T) {
	data := text("a", 5000)
	s := New(Options{FS: fstest.MapFS{"file.txt": {Data: data, ModTime: longAgo()}}, Suffixes: suffixes()})
	mustOpen(t, s, "file.txt", Identity).Release()
	want := int64(entryMemory + len("file.txt") + 5000)
	if s.memory != want {
		t.Errorf("%d bytes, want %d", s.memory, want)
	}
	for range 2 { // made, cached
		for e := Gzip; e < Encodings; e++ {
			wantEncoded(t, s, "file.txt", e, data).Release()
		}
	}
	for e := Gzip; e < Encodings; e++ {
		want += mustOpen(t, s, "file.txt", e).Size()
	}
	if s.memory != want {
		t.Errorf("with variants: %d bytes, want %d", s.memory, want)
	}
	s.dropAll()
	if s.memory != 0 || s.descriptors != 0 {
		t.Errorf("empty: %d bytes, %d descriptors", s.memory, s.descriptors)
	}
}

// A variant with a descriptor moves its entry to the list of those with descriptors.
func TestVariantWithADescriptor(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file.txt", text("a", 5000))
	write(t, dir+"/file.txt.x.gz", text("c", 3000))
	write(t, dir+"/other.txt", text("a", 5000))
	s := New(Options{Root: dir, Suffixes: suffixes(), SmallFile: 2000, MaxOpen: 5, MinEncode: 1, CacheDuration: time.Hour})
	f := mustOpen(t, s, "file.txt", Gzip)
	f.Release()
	if s.descriptors != 2 {
		t.Errorf("%d descriptors, want the original's and the copy's", s.descriptors)
	}
	checkCounts(t, s)
	s.dropDescriptors()
	if len(s.entries) != 0 || openDescriptors(t, dir+"/") != 0 {
		t.Errorf("%d entries, %d descriptors are left", len(s.entries), openDescriptors(t, dir+"/"))
	}
	memory := New(Options{Root: dir, Suffixes: suffixes(), SmallFile: 5000, CacheDuration: time.Hour})
	memory.options.SmallFile = 2500 // only the copy is large
	original := mustOpen(t, New(Options{Root: dir, SmallFile: 5000}), "file.txt", Identity)
	if _, inMemory := original.Bytes(); !inMemory {
		t.Fatal("the original is not small")
	}
	memory.keep("file.txt", loaded{file: original}, memory.now(), 0)
	mustOpen(t, memory, "file.txt", Gzip).Release()
	if memory.descriptors != 1 {
		t.Errorf("%d descriptors, want the copy's", memory.descriptors)
	}
	checkCounts(t, memory)
}

// The least recently used entry is dropped first, with or without a descriptor.
func TestWhichEntryGoesFirst(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		write(t, fmt.Sprintf("%s/small%d", dir, i), text("small", 1000))
		write(t, fmt.Sprintf("%s/large%d", dir, i), text("large", 9000))
	}
	const memory = 5100 // two small files and a large one
	for order, want := range map[string]string{
		"large0 small0 small1 small2": "small1 small2",
		"small0 large0 small1 small2": "large0 small1 small2",
		"small0 small1 large0 small2": "small1 large0 small2",
	} {
		s := New(Options{Root: dir, MemoryLimit: memory, SmallFile: 1000})
		c := useManual(s)
		for name := range strings.FieldsSeq(order) {
			serve(t, s, name, Identity)
			c.advance(1)
		}
		for name := range strings.FieldsSeq(want) {
			if s.entries[name] == nil {
				t.Errorf("%s: %s went", order, name)
			}
		}
		if s.entries[strings.Fields(order)[0]] != nil || s.memory > memory {
			t.Errorf("%s: the first stays, %d bytes", order, s.memory)
		}
		checkCounts(t, s)
	}
	s := New(Options{Root: dir, MemoryLimit: 2500, SmallFile: -1})
	for i := range 3 {
		serve(t, s, fmt.Sprint("large", i), Identity)
	}
	if len(s.entries) != 2 || s.memory > 2500 {
		t.Errorf("large files alone: %d entries, %d bytes", len(s.entries), s.memory)
	}
}

// An unchanged root keeps its handle. It is checked from time to time, not for each
// call.
func TestRootKeepsItsHandle(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/root/file", []byte("fine"))
	s := New(Options{Root: dir + "/root"})
	c := useManual(s)
	wantServed(t, s, "file", []byte("fine"))
	first := s.root.current
	for range 3 {
		c.advance(10*time.Second - 1)
		_, _ = s.Open([]byte("missing"), Identity)
		c.advance(1)
		wantServed(t, s, "file", []byte("fine"))
		if s.root.current != first || s.generation != 0 || s.entries["file"] == nil {
			t.Fatal("the root was opened again, or the cache dropped")
		}
	}
	if err := os.RemoveAll(dir + "/root"); err != nil {
		t.Fatal(err)
	}
	c.advance(10*time.Second - 1)
	wantServed(t, s, "file", []byte("fine"))
	c.advance(1)
	if _, err := s.Open([]byte("file"), Identity); !errors.Is(err, fs.ErrNotExist) || s.generation != 1 {
		t.Errorf("the root is gone: %v", err)
	}
	if _, err := s.Open([]byte("file"), Identity); !errors.Is(err, fs.ErrNotExist) || s.generation != 1 {
		t.Errorf("the root is still gone: %v, generation %d", err, s.generation)
	}
}

// A root that becomes a file counts as missing.
func TestRootBecomesAFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/root/file", []byte("fine"))
	s := New(Options{Root: dir + "/root"})
	c := useManual(s)
	wantServed(t, s, "file", []byte("fine"))
	if err := os.RemoveAll(dir + "/root"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/root", []byte("a file"))
	c.advance(10 * time.Second)
	for range 2 {
		if _, err := s.Open([]byte("file"), Identity); err == nil || s.generation != 1 || len(s.entries) != 0 {
			t.Errorf("%v, generation %d, %d entries", err, s.generation, len(s.entries))
		}
	}
	if n := openDescriptors(t, dir); n != 0 {
		t.Errorf("%d descriptors, of the folder that is gone", n)
	}
}

// Other errors keep their text, without the path.
func TestErrorsWithoutPath(t *testing.T) {
	inner := errors.New("inner")
	for what, c := range map[string]struct{ err, want error }{
		"path":       {&fs.PathError{Op: "open", Path: "/secret", Err: inner}, inner},
		"link":       {&os.LinkError{Op: "rename", Old: "/secret", New: "/secret", Err: inner}, inner},
		"both":       {&fs.PathError{Path: "/secret", Err: &os.LinkError{Old: "/secret", Err: inner}}, inner},
		"invalid":    {&fs.PathError{Path: "/secret", Err: fs.ErrInvalid}, fs.ErrInvalid},
		"permission": {&fs.PathError{Path: "/secret", Err: fs.ErrPermission}, fs.ErrPermission},
		"missing":    {&fs.PathError{Path: "/secret", Err: fs.ErrNotExist}, fs.ErrNotExist},
		"changed":    {ErrChanged, ErrChanged},
		"directory":  {ErrIsDirectory, ErrIsDirectory},
		"not below":  {&fs.PathError{Path: "/secret", Err: syscall.ENOTDIR}, fs.ErrNotExist},
		"too long":   {&fs.PathError{Path: "/secret", Err: syscall.ENAMETOOLONG}, fs.ErrNotExist},
		"a loop":     {&fs.PathError{Path: "/secret", Err: syscall.ELOOP}, fs.ErrNotExist},
		"a socket":   {&fs.PathError{Path: "/secret", Err: syscall.ENXIO}, ErrNotRegular},
		"none":       {nil, nil},
	} {
		got := clean(c.err)
		if !errors.Is(got, c.want) || got != nil && strings.Contains(got.Error(), "/secret") {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// The table of open files may be full.
func TestTooManyOpenFilesForGood(t *testing.T) {
	s := New(Options{FS: of(oddFile{openErr: &fs.PathError{Op: "open", Err: errOdd}})})
	if _, err := s.Open([]byte("file"), Identity); !errors.Is(err, errOdd.Err) {
		t.Errorf("got %v", err)
	}
}
