package prefork

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/internal/process/supervise"
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
	if !isQueueEmpty(noDescriptor{ln}) {
		t.Error("connections wait in a listener without a descriptor")
	}
	if ln.Close(); !isQueueEmpty(ln) {
		t.Error("connections wait in a closed listener")
	}
}

// Connections are counted for every address family.
func TestOpenSockets(t *testing.T) {
	var all []net.Addr
	ports := map[int]bool{} // for TCP the port decides, whatever the family
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Logf("%s: %v", network, err) // e.g. a machine without IPv6
			continue
		}
		defer ln.Close()
		tcp, isTCP := ln.Addr().(*net.TCPAddr)
		for isTCP && ports[tcp.Port] { // that of the other family
			if ln, err = net.Listen(network, address); err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			tcp = ln.Addr().(*net.TCPAddr)
		}
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
		all = append(all, ln.Addr())
		if isTCP { // another kind of socket with the same port
			packets, err := net.DialUDP("udp", &net.UDPAddr{IP: tcp.IP, Port: tcp.Port}, &net.UDPAddr{IP: tcp.IP, Port: 9})
			if err != nil {
				t.Fatal(err)
			}
			defer packets.Close()
			ports[tcp.Port] = true
		}
	}
	if n, _ := openSockets(all); n != 3*len(all) {
		t.Errorf("%d connections of %v", n, all)
	}
}

// A noDescriptor is a listener whose descriptor is not to be had.
type noDescriptor struct{ net.Listener }

func (noDescriptor) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

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
