package prefork

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The resident memory agrees with /proc/self/status.
func TestResident(t *testing.T) {
	var u usage
	if n := u.resident(); n != 0 {
		t.Errorf("%d bytes before it is open", n)
	}
	u.open()
	defer u.close()
	status, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	defer status.Close()
	want := uint64(0)
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if text, isIt := strings.CutPrefix(lines.Text(), "VmRSS:"); isIt {
			fmt.Sscan(text, &want)
			want *= 1024
		}
	}
	if got := u.resident(); got < want/2 || got > want*2 {
		t.Errorf("%d bytes, about %d are in use", got, want)
	}
}

// The second number of statm counts pages.
func TestStatm(t *testing.T) {
	name := filepath.Join(t.TempDir(), "statm")
	for text, want := range map[string]uint64{"99 1234567890 55 1 0 9 0\n": 1234567890, "1": 0, "": 0} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		u := usage{statm: f}
		if got := u.resident(); got != want*uint64(os.Getpagesize()) {
			t.Errorf("%q: %d bytes", text, got)
		}
		if u.close(); !errors.Is(f.Close(), os.ErrClosed) {
			t.Error("it stays open")
		}
	}
	new(usage).close() // nothing is open
}

// The CPU time is that in user and in kernel mode.
func TestCPUTime(t *testing.T) {
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for range 100 { // some in kernel mode
		os.ReadFile("/proc/self/status")
	}
	var u usage
	before := used()
	got := u.cpu()
	if after := used(); got < before || got > after || u.times.Stime.Nano() == 0 {
		t.Errorf("%v, not between %v and %v", got, before, after)
	}
}
