package tcp_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tcp"
)

// farListener gives each connection the next address of an IPv6 network.
type farListener struct {
	net.Listener
	next atomic.Uint32
}

type farConn struct {
	net.Conn
	from *net.TCPAddr
}

func (c farConn) RemoteAddr() net.Addr { return c.from }

func (l *farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP("2001:db8::")
	ip[15] = byte(l.next.Add(1))
	return farConn{c, &net.TCPAddr{IP: ip, Port: 4000}}, nil
}

// TestMaxConnsPerNetwork: the addresses of an IPv6 network count as one client.
func TestMaxConnsPerNetwork(t *testing.T) {
	for prefix, isRefused := range map[int]bool{0: true, 64: true, 128: false} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &tcp.Server{Handler: echo, MaxConnsPerIP: 1, IPv6ClientPrefix: prefix}
		served := make(chan error, 1)
		go func() { served <- s.Serve(&farListener{Listener: ln}) }()
		var conns []net.Conn
		answers := func() bool {
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = c.Write([]byte("x"))
			_, err = io.ReadFull(c, make([]byte, 1))
			return err == nil
		}
		if !answers() {
			t.Fatalf("/%d: the first connection is refused", prefix)
		}
		if answers() == isRefused {
			t.Errorf("/%d: the second connection is refused: %v, want %v", prefix, !isRefused, isRefused)
		}
		for _, c := range conns {
			_ = c.Close()
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-served
	}
}
