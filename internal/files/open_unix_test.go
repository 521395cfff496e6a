//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPipesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o644); err != nil {
		t.Skip(err)
	}
	write(t, dir+"/file.txt", text("a", 2000))
	if err := syscall.Mkfifo(dir+"/file.txt.x.gz", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Root: dir}, {Root: dir, Unconfined: true}, {FS: os.DirFS(dir)}} {
		o.Suffixes = suffixes()
		s := New(o)
		if _, err := s.Open([]byte("pipe"), Identity); !errors.Is(err, ErrNotRegular) {
			t.Errorf("a pipe: %v", err)
		}
		if f := mustOpen(t, s, "file.txt", Gzip); f.encoding != Gzip || string(decode(t, serve(t, s, "file.txt", Gzip), Gzip)) != string(text("a", 2000)) {
			t.Error("a pipe in the copy's place")
		}
		if o.FS == nil {
			if entries, _, err := s.ReadDir(nil, 0); err != nil || namesOf(entries) != "file.txt" {
				t.Errorf("listed: %s, %v", namesOf(entries), err)
			}
		}
	}
	if _, err := New(Options{Root: "/dev"}).Open([]byte("null"), Identity); !errors.Is(err, ErrNotRegular) {
		t.Error("a device is opened")
	}
}

// A pipe that replaces a file after the check does not block open.
func TestPipeInTheLastMoment(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", []byte("x"))
	c, err := openConfined(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	for _, from := range []source{c, plain{dir}} {
		var once sync.Once
		late := lateSource{from, func() {
			once.Do(func() {
				if os.Remove(dir+"/file") != nil || syscall.Mkfifo(dir+"/file", 0o644) != nil {
					t.Error("no pipe")
				}
			})
		}}
		if _, _, err := openRegular(late, "file"); !errors.Is(err, ErrNotRegular) {
			t.Errorf("a pipe: %v", err)
		}
		if err := os.Remove(dir + "/file"); err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/file", []byte("x"))
	}
}

// The flag that prevents open from blocking is cleared afterwards.
func TestFilesAreBlocking(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", []byte("x"))
	f, err := plain{dir}.open("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := f.(*os.File).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, syscall.F_GETFL, 0); err != nil || flags&syscall.O_NONBLOCK != 0 {
			t.Errorf("flags %x, %v", flags, err)
		}
	}); err != nil {
		t.Error(err)
	}
}

// What a Store makes is its user's until it is complete, and its folders are for all.
func TestPermissions(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	confined, err := openConfined(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer confined.release()
	for name, at := range map[string]folder{"confined": confined, "plain": plain{t.TempDir()}} {
		if err := at.makeAll("a/b"); err != nil {
			t.Fatal(err)
		}
		f, err := at.create("a/b/file")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if again, err := at.create("a/b/file"); err == nil {
			_ = again.Close()
			t.Errorf("%s: created twice", name)
		}
		for path, want := range map[string]fs.FileMode{"a": fs.ModeDir | 0o755, "a/b": fs.ModeDir | 0o755, "a/b/file": 0o600} {
			if info, err := at.stat(path); err != nil || info.Mode() != want {
				t.Errorf("%s, %s: %v, %v", name, path, info.Mode(), err)
			}
		}
	}
}
