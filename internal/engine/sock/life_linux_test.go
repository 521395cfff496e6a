//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"syscall"
	"testing"
)

// Closing waits for the peer only where SO_LINGER has a time, or cannot be asked.
func TestLingers(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	for _, c := range []struct {
		set  syscall.Linger
		want bool
	}{{syscall.Linger{}, false}, {syscall.Linger{Onoff: 1}, false}, {syscall.Linger{Onoff: 1, Linger: 1}, true}, {syscall.Linger{Linger: 1}, false}} {
		if err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &c.set); err != nil {
			t.Fatal(err)
		}
		if got := Lingers(fd); got != c.want {
			t.Errorf("SO_LINGER %+v: it lingers: %v", c.set, got)
		}
	}
	if !Lingers(-1) {
		t.Error("it is known not to linger although it cannot be asked")
	}
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{})
}
