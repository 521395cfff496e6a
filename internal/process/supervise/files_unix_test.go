//go:build unix

package supervise

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A File without a descriptor is an error.
func TestHoldWithoutFile(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if f, err := hold(file); f != nil || err == nil {
		t.Errorf("hold: %v, %v", f, err)
	}
	if isListener(-1) || isPipe(-1) {
		t.Error("no descriptor is a listener, or a pipe")
	}
}

// The poller does not know a held file, so what arrives on it does not wake the
// master. It does not block.
func TestHeldFiles(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	f, err := hold(read)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := read.Close(); err == nil {
		t.Error("the original is still open")
	}
	if err := f.SetDeadline(time.Time{}); err != os.ErrNoDeadline {
		t.Errorf("the poller knows it: %v", err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("it blocks: flags %#x, %v", flags, err)
	}
}
