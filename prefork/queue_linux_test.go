package prefork

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/internal/supervise"
)

// isQueueEmpty sees waiting connections in listeners of the system; for others it
// always returns true.
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

// Connections are counted for every address family.
func TestOpenSockets(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Logf("%s: %v", network, err) // e.g. a machine without IPv6
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

// A worker that inherits no listeners opens them and knows their addresses.
func TestWorkersMakeListeners(t *testing.T) {
	p := &Prefork{Reuseport: true, Listen: []string{"127.0.0.1:0"}}
	w := &worker{prefork: p, link: &supervise.Worker{}}
	if err := w.listen("127.0.0.1:0"); err != nil || len(w.own) != 2 || len(w.addrs) != 2 {
		t.Errorf("%v: listeners %v at %v", err, w.own, w.addrs)
	}
	for _, ln := range w.own {
		ln.Close()
	}
	w = &worker{prefork: p, link: w.link}
	if err := w.listen("256.0.0.1:0"); err == nil {
		t.Error("it listens nowhere")
	}
	p.Reuseport = false
	if err := (&worker{prefork: p, link: w.link}).listen("127.0.0.1:0"); err != errNoListener {
		t.Errorf("without a port that may be shared: %v", err)
	}
}
