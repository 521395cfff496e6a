package tcp_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// TestAdoptSocket is TestAdoptConn with a bare descriptor.
func TestAdoptSocket(t *testing.T) {
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		t.Run(e.String(), func(t *testing.T) {
			s, heard, closed := asker(t, e)
			mine, other := pairOf(t, "tcp")
			control, err := mine.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			fd := -1
			_ = control.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) })
			if err != nil {
				t.Fatal(err)
			}
			_ = mine.Close()
			if err := s.AdoptSocket(fd); err != nil {
				t.Fatal(err)
			}
			checkAsked(t, s, &client{other}, heard, closed)
		})
	}
	if new(tcp.Server).AdoptSocket(-1) == nil {
		t.Error("a descriptor that is none was adopted")
	}
}
