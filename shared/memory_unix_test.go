//go:build (linux && !mips && !mipsle && !(arm && !arm.7)) || darwin || dragonfly || freebsd || netbsd || openbsd

package shared

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// newTemporary returns a segment in a temporary file, as on systems without memfds.
func newTemporary(t *testing.T) *Segment {
	t.Helper()
	l := Must(Options{Size: 16 << 20, Processes: 8}.layout())
	file, err := createTemporary(int64(l.size) * wordBytes)
	if err != nil {
		t.Fatal(err)
	}
	s := Must(newInFile(l, file))
	t.Cleanup(func() { s.Close() })
	return s
}

// A segment in a temporary file works like any other, and in other processes too.
func TestTemporaryFile(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	s := newTemporary(t)
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the file has a name: %v, %v", left, err)
	}
	info, err := s.File().Stat()
	if size, _ := s.Size(); err != nil || info.Mode() != 0o600 || info.Size() != size || !s.IsShared() {
		t.Errorf("%v, %d bytes; shared: %v; %v", info.Mode(), info.Size(), s.IsShared(), err)
	}
	workers := startProcesses(t, s, "count", 3)
	for _, w := range workers {
		w.send("go")
	}
	for _, w := range workers {
		w.expect("done")
	}
	again := Must(Attach(s.File()))
	if n := Must(again.Counter("count")).Value(); n != 3*250_000 {
		t.Errorf("%d were counted", n)
	}
	for i := range 3 { // found among the inherited descriptors
		w := startProcess(t, s, "inherit")
		w.expect("done")
		if n := Must(s.Counter("inherited")).Value(); n != uint64(i+1) {
			t.Errorf("process %d has not found the segment", i)
		}
	}
}

// A missing folder is an error and leaves no descriptor open.
func TestMapNoFile(t *testing.T) {
	if words, err := mapFile(^uintptr(0)); words != nil || !errors.Is(err, unix.EBADF) {
		t.Errorf("%d words, %v", len(words), err)
	}
}

func TestNoTemporaryFile(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if file, err := createTemporary(minSize); !errors.Is(err, os.ErrNotExist) || file != nil {
		t.Errorf("%v, %v", file, err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if file, err := createTemporary(-1); err == nil || file != nil {
		t.Errorf("a file of -1 bytes: %v, %v", file, err)
	}
}

// findInherited returns the segment of the parent, not a similar file, and prevents
// child processes from inheriting it.
func TestFindInherited(t *testing.T) {
	const first = 900 // this process has no other descriptor that high
	place := func(fd int, file *os.File) {
		t.Helper()
		got, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD, fd)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { unix.Close(got) })
		if got != fd {
			t.Fatalf("descriptor %d instead of %d", got, fd)
		}
	}
	foreign := newTemporary(t) // created by this process, so only its children find it
	other := newTemporary(t)
	other.words[headerCreator].Store(uint64(os.Getppid()))
	other.words[headerMagic].Store(magic + 1)
	short := Must(os.CreateTemp(t.TempDir(), ""))
	defer short.Close()
	short.Write(make([]byte, (headerCreator+1)*wordBytes-1))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	for i, f := range []*os.File{foreign.File(), other.File(), short, read} {
		place(first+i, f)
	}
	if fd := findInherited(); fd != -1 {
		t.Errorf("found descriptor %d", fd)
	}
	right := newTemporary(t)
	right.words[headerCreator].Store(uint64(os.Getppid()))
	own := int(right.File().Fd()) // lower than its duplicates
	if fd := findInherited(); fd != own {
		t.Errorf("found descriptor %d, want %d", fd, own)
	}
	place(lastInherited, right.File())
	right.Close()
	if fd := findInherited(); fd != lastInherited {
		t.Errorf("found descriptor %d, want the last one", fd)
	}
	if flags, err := unix.FcntlInt(lastInherited, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v: other processes inherit it", flags, err)
	}
}
