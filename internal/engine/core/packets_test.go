//go:build linux && (amd64 || arm64) && !race

package core

import (
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"golang.org/x/sys/unix"
)

// The last answer and the FIN are one packet. The others that a client gets are for its SYN
// and for its request. (With the race detector, sends do not wait for what follows.)
func TestAnswerWithFIN(t *testing.T) {
	for _, next := range []engine.Next{engine.Close, engine.CloseQuiet, engine.CloseLinger} {
		ln := listen(t)
		serveOn(t, ln, &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
			return append(out, inputOf(c)...), next
		}}, engine.Options{})
		c := dial(t, ln)
		ask(t, c, "request")
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("next %v: %d, %v", next, n, err)
		}
		if n := packets(t, c); n > 3 {
			t.Errorf("next %v: %d packets came", next, n)
		}
	}
}

// packets returns how many packets c has received.
func packets(t *testing.T, c net.Conn) (n uint32) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		n = info.Segs_in
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
