package prefork

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/sluicehttp/sluice/fasthttputil"
)

// What waits in a listener of the system can be seen; in others nothing does.
func TestQueueIsEmpty(t *testing.T) {
	memory := fasthttputil.NewInmemoryListener()
	defer memory.Close()
	if !isQueueEmpty(memory) {
		t.Error("connections in memory wait")
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if !isQueueEmpty(ln) {
		t.Error("connections wait before there is one")
	}
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "the connection waits", func() bool { return !isQueueEmpty(ln) })
}

// Connections are counted whatever the family of their socket is.
func TestOpenSockets(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Logf("%s: %v", network, err) // a machine without IPv6
			continue
		}
		defer ln.Close()
		for want := range 3 {
			if n, isKnown := openSockets([]net.Addr{ln.Addr()}); n != want || !isKnown {
				t.Errorf("%s: %d of %d connections, %v", network, n, want, isKnown)
			}
			client, err := net.Dial(network, ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
	}
}
