package netconn

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// keepAliveAcceptor tells whether keep-alive probes are on.
type keepAliveAcceptor struct {
	lineProtocol
	on chan int
}

func (a *keepAliveAcceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	control, err := c.NetConn().(syscall.Conn).SyscallConn()
	if err != nil {
		a.on <- -1
		return a, nil
	}
	_ = control.Control(func(fd uintptr) {
		value, err := getKeepAlive(fd)
		if err != nil {
			value = -1
		}
		a.on <- value
	})
	return a, nil
}

func TestKeepAlivePeriod(t *testing.T) {
	for _, test := range []struct {
		period time.Duration
		on     bool
	}{{0, true}, {time.Minute, true}, {-1, false}} {
		ln, dial := listenTCP(t)
		a := &keepAliveAcceptor{on: make(chan int, 1)}
		e := New(engine.Options{KeepAlivePeriod: test.period})
		served := make(chan error, 1)
		go func() { served <- e.Serve(ln, a) }()
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if on := <-a.on; (on > 0) != test.on {
			t.Errorf("period %v: SO_KEEPALIVE is %d, want %v", test.period, on, test.on)
		}
		_ = c.Close()
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = ln.Close()
	}
}

// A connection that was accepted before Shutdown gave up, and is registered
// after that, is closed like the others.
func TestLateConnectionIsKilled(t *testing.T) {
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"bare":    func(ln net.Listener) net.Listener { return ln },
		"wrapped": func(ln net.Listener) net.Listener { return wrappingListener{ln} },
	} {
		t.Run(name, func(t *testing.T) {
			ln, dial := listenTCP(t)
			d := serve(t, wrap(ln), &lineProtocol{}).(*driver)
			d.killing.Store(true)
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it was not closed: %d, %v", n, err)
			}
		})
	}
}
