package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// countedFS counts how often a folder is read, which waits for gate if there is one.
type countedFS struct {
	fstest.MapFS
	reads atomic.Int32
	gate  chan struct{}
	fails error
}

func (c *countedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	c.reads.Add(1)
	if c.gate != nil {
		<-c.gate
	}
	if c.fails != nil {
		return nil, c.fails
	}
	return c.MapFS.ReadDir(name)
}

func mustIndex(t *testing.T, s *Store, name, path string, e Encoding) *File {
	t.Helper()
	f, err := s.Index([]byte(name), []byte(path), e)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// TestIndexIsCached: a folder is read once in CacheDuration, for whatever path its page is.
func TestIndexIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &countedFS{MapFS: fstest.MapFS{"d/a.txt": {}}}
		stop := make(chan struct{})
		s := New(Options{FS: c, CacheDuration: time.Minute, CleanStop: stop})
		s.now = func() int64 { return time.Now().UnixNano() }
		for i := range 20 {
			path := fmt.Sprintf("/p%d/", i%3)
			page := string(mustIndex(t, s, "d", path, Identity).data)
			if !strings.Contains(page, "<title>Index of "+path+"</title>") || !strings.Contains(page, `href="./a.txt"`) {
				t.Fatalf("%s: %s", path, page)
			}
		}
		if n := c.reads.Load(); n != 1 {
			t.Errorf("the folder was read %d times", n)
		}
		if a, b := mustIndex(t, s, "d", "/p0/", Identity), mustIndex(t, s, "d", "/p0/", Identity); a != b {
			t.Error("a page was made again")
		}
		c.MapFS["d/b.txt"] = &fstest.MapFile{}
		time.Sleep(time.Minute)
		if page := mustIndex(t, s, "d", "/p0/", Identity); !bytes.Contains(page.data, []byte("b.txt")) {
			t.Error("the page is older than CacheDuration")
		}
		if page := mustIndex(t, s, "d", "/p1/", Identity); !bytes.Contains(page.data, []byte("b.txt")) || c.reads.Load() != 2 {
			t.Errorf("another page of the folder is older, or the folder was read again: %d", c.reads.Load())
		}
		close(stop)
		mustIndex(t, s, "d", "/p0/", Identity)
		mustIndex(t, s, "d", "/p0/", Identity)
		if n := c.reads.Load(); n != 4 {
			t.Errorf("after CleanStop the folder was read %d times", n-2)
		}
	})
}

// TestIndexIsMadeOnce for all that ask for it at the same time, and errors are not cached.
func TestIndexIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &countedFS{MapFS: fstest.MapFS{"d/a.txt": {}}, gate: make(chan struct{}), fails: fs.ErrPermission}
		s := New(Options{FS: c})
		for want, err := range []error{fs.ErrPermission, nil} {
			c.fails = err
			var group sync.WaitGroup
			for range 50 {
				group.Go(func() {
					if _, got := s.Index([]byte("d"), []byte("/d/"), Gzip); !errors.Is(got, err) {
						t.Errorf("%v, want %v", got, err)
					}
				})
			}
			synctest.Wait()
			c.gate <- struct{}{}
			group.Wait()
			if n := int(c.reads.Load()); n != want+1 {
				t.Errorf("the folder was read %d times, want %d", n, want+1)
			}
		}
		s.dropAll()
		s.timer.Stop()
	})
}

// TestIndexOfPanic: those that wait for a list get an error if making it panics.
func TestIndexOfPanic(t *testing.T) {
	s := New(Options{FS: panickingFS{}})
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("there was no panic")
				}
			}()
			_, _ = s.Index([]byte("."), []byte("/"), Identity)
		}()
	}
	if len(s.indexing) > 0 {
		t.Error("a list is still being made")
	}
}

type panickingFS struct{ fs.FS }

func (panickingFS) Stat(string) (fs.FileInfo, error)      { return oddInfo{&oddFile{mode: fs.ModeDir}}, nil }
func (panickingFS) ReadDir(string) ([]fs.DirEntry, error) { panic("folder") }

// TestIndexWithoutCache: SkipCache shows what is there now, and encodes equal pages once.
func TestIndexWithoutCache(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.txt"), nil)
	s := New(Options{Root: dir, SkipCache: true})
	first := mustIndex(t, s, ".", "/", Gzip)
	if first.encoding != Gzip || !bytes.Contains(decode(t, first.data, first.encoding), []byte("a.txt")) {
		t.Errorf("encoding %d", first.encoding)
	}
	if again := mustIndex(t, s, ".", "/", Gzip); again != first {
		t.Error("an equal page was encoded again")
	}
	write(t, filepath.Join(dir, "b.txt"), nil)
	if page := mustIndex(t, s, ".", "/", Gzip); !bytes.Contains(decode(t, page.data, page.encoding), []byte("b.txt")) {
		t.Error("the page is an old one")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("files were written: %v, %v", left, err)
	}
}

// TestIndexMemory: pages for many paths stay within the limit of the cache.
func TestIndexMemory(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 200 {
		files[fmt.Sprintf("d/%0100d", i)] = &fstest.MapFile{}
	}
	s := New(Options{FS: files, MemoryLimit: 1 << 20})
	for i := range 500 {
		mustIndex(t, s, "d", fmt.Sprintf("/%d/", i), Gzip)
	}
	if s.memory > 1<<20 || s.memory == 0 {
		t.Errorf("%d bytes", s.memory)
	}
}

// TestIndexErrors are those of lists.
func TestIndexErrors(t *testing.T) {
	s := New(Options{FS: fstest.MapFS{"f": {}}})
	for _, name := range []string{"none", "f", "../x", "a\x00b"} {
		if _, err := s.Index([]byte(name), []byte("/"), Identity); err == nil {
			t.Errorf("%q has a page", name)
		}
	}
	if page := mustIndex(t, s, "", "/", Identity); !bytes.Contains(page.data, []byte(`href="./f"`)) {
		t.Errorf("%s", page.data)
	}
}
