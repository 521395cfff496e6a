package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// keepAliveAcceptor reports whether keep-alive probes are on.
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
			d := serve(t, wrap(ln), &midMessage{}).(*driver)
			first, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			exchange(t, first, make([]byte, 1)) // Serve has begun
			d.life.Reach(engine.StageKilling)
			defer d.life.Store(uint32(engine.StageServing))
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = c.Write([]byte("x")) // it may be closed already
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it was not closed: %v", err)
			}
		})
	}
}

// A midMessage is never between two messages, so Shutdown waits for it until it gives up.
type midMessage struct{ lineProtocol }

func (*midMessage) Pause() bool                                  { return false }
func (p *midMessage) Open(engine.Conn) (engine.Protocol, []byte) { return p, nil }

// A scriptedListener returns from Accept what the test sends.
type scriptedListener struct {
	net.Listener
	results chan any // a net.Conn or an error
	waiting atomic.Int32
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	switch result := (<-l.results).(type) {
	case net.Conn:
		return result, nil
	default:
		return nil, result.(error)
	}
}

// connect has the engine serve a connection, and closes it after a response.
func (l *scriptedListener) connect(t *testing.T) {
	client, server := net.Pipe()
	l.results <- server
	exchange(t, client, []byte{'x'})
	_ = client.Close()
}

// Serve returns the error of its listener at once, also while another goroutine is in
// Accept. What that one accepts is served before Shutdown, and closed after it.
func TestListenerFails(t *testing.T) {
	failure := errors.New("no more connections")
	for _, isShutdown := range []bool{false, true} {
		l := &scriptedListener{results: make(chan any)}
		e := New(engine.Options{})
		served := make(chan error, 1)
		go func() { served <- e.Serve(l, &lineProtocol{}) }()
		l.connect(t)
		for l.waiting.Load() < 2 {
			runtime.Gosched()
		}
		l.results <- failure
		if err := <-served; err != failure {
			t.Errorf("Serve returned %v", err)
		}
		if isShutdown {
			if err := e.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		client, server := net.Pipe()
		l.results <- server
		if isShutdown {
			if n, err := client.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("a connection after Shutdown was not closed: %d, %v", n, err)
			}
		} else {
			exchange(t, client, []byte{'x'})
		}
		_ = client.Close()
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// However many connections end at the same time, few goroutines accept.
func TestAcceptingIsBounded(t *testing.T) {
	l := &scriptedListener{results: make(chan any)}
	e := New(engine.Options{})
	served := make(chan error, 1)
	go func() { served <- e.Serve(l, &lineProtocol{}) }()
	var clients []net.Conn
	for range 4 * maxAccepting {
		client, server := net.Pipe()
		l.results <- server
		clients = append(clients, client)
	}
	for _, client := range clients {
		exchange(t, client, []byte{'x'})
		_ = client.Close()
	}
	for e.Stats().Open > 0 || l.waiting.Load() < maxAccepting {
		runtime.Gosched()
	}
	if n := l.waiting.Load(); n != maxAccepting {
		t.Errorf("%d goroutines accept, want %d", n, maxAccepting)
	}
	for range maxAccepting {
		l.results <- net.ErrClosed
	}
	if err := <-served; err != net.ErrClosed {
		t.Errorf("Serve returned %v", err)
	}
}
