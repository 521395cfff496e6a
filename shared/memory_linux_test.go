package shared

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const canSeal = canShare

// A refused file leaves no mapping.
func TestRefusedFilesAreUnmapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := Attach(file); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	if bytes.Contains(maps, []byte(path)) {
		t.Error("it is still mapped")
	}
}

// Older systems have no memfd, or not all of its flags. What cannot be made is not left
// half made.
func TestOlderSystems(t *testing.T) {
	made := []int{}
	old := func(flag int, err error) func(string, int) (int, error) {
		return func(name string, flags int) (int, error) {
			if flags&flag != 0 {
				return -1, err
			}
			fd, err := unix.MemfdCreate(name, flags)
			made = append(made, fd)
			return fd, err
		}
	}
	for _, c := range []struct {
		name     string
		memfd    func(string, int) (int, error)
		isSealed bool
	}{
		{"this one", unix.MemfdCreate, true},
		{"before 6.3", old(unix.MFD_NOEXEC_SEAL, unix.EINVAL), true},
		{"before 3.17", old(unix.MFD_CLOEXEC, unix.ENOSYS), false},
	} {
		file, err := createSealed(minSize, c.memfd)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
		if err != nil { // no file that can be sealed
			seals = 0
		}
		if info, err := file.Stat(); err != nil || info.Size() != minSize || (seals&unix.F_SEAL_SHRINK != 0) != c.isSealed {
			t.Errorf("%s: %v, %v, seals %#x", c.name, info, err, seals)
		}
		flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: it is inherited: %#x, %v", c.name, flags, err)
		}
		file.Close()
	}
	made = nil
	if file, err := createSealed(-1, old(0, nil)); err == nil || file != nil {
		t.Errorf("a negative size: %v, %v", file, err)
	}
	unsealable := func(string, int) (int, error) {
		fd, err := unix.MemfdCreate("x", 0)
		made = append(made, fd)
		return fd, err
	}
	if file, err := createSealed(minSize, unsealable); err == nil || file != nil {
		t.Errorf("a file that cannot be sealed: %v, %v", file, err)
	}
	for _, fd := range made {
		if err := unix.Close(fd); err != unix.EBADF {
			t.Errorf("descriptor %d stays open", fd)
		}
	}
}

// A file that cannot be mapped is closed.
func TestUnmappableFile(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "short"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := newInFile(Must(Options{}.layout()), file); !errors.Is(err, ErrCorrupt) || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	if !errors.Is(file.Close(), os.ErrClosed) {
		t.Error("it stays open")
	}
}

// To look whose file it is leaves nothing mapped.
func TestLookingLeavesNoMapping(t *testing.T) {
	s := newShared(t, 2)
	mappings := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(maps, []byte(memoryName))
	}
	before := mappings()
	if !s.isIn(s.File()) || mappings() != before || before == 0 {
		t.Errorf("%d mappings, %d before", mappings(), before)
	}
}
