//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A connection with a part of a header whose input ends is refused, unless the engine has ended it.
func TestKilledConnectionIsNotRefused(t *testing.T) {
	for _, c := range []struct {
		flags   uint64
		refused bool
		err     error
	}{{flagGone, true, io.ErrUnexpectedEOF}, {flagGone | flagKill, false, net.ErrClosed}} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var refused error
		rule := &engine.ProxyRule{Refused: func(_ net.Addr, err error) { refused = err }}
		d := swept()
		one := &conn{connState: connState{driver: d, place: d.table.open(pair[0]), fd: pair[0]}}
		one.serving = &serving{driver: d, network: "unix", hooks: engine.Hooks{Proxy: rule}}
		one.ServedBy(one)
		one.attach(&worker{})
		one.slot().set(flagFresh | flagHandshake | c.flags)
		if _, err := syscall.Write(pair[1], []byte("PROXY ")); err != nil {
			t.Fatal(err)
		}
		if next := one.begin(); next != engine.Abort || (refused != nil) != c.refused || !errors.Is(one.Err, c.err) {
			t.Errorf("flags %b: next is %d, the error %v; refused with %v", c.flags, next, one.Err, refused)
		}
		_, _ = syscall.Close(pair[0]), syscall.Close(pair[1])
	}
}
