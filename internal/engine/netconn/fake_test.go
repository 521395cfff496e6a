package netconn

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// A fakeListener yields one connection object over and over. It has one byte of
// input, and neither it nor its listener allocates.
type fakeListener struct {
	pending chan net.Conn
	done    chan struct{}
	conn    *fakeConn
}

func newFakeListener() *fakeListener {
	l := &fakeListener{pending: make(chan net.Conn), done: make(chan struct{})}
	l.conn = &fakeConn{closed: make(chan struct{})}
	return l
}

// connect has the engine accept the connection, and waits until it is closed.
func (l *fakeListener) connect() {
	l.conn.fed = false
	l.pending <- l.conn
	<-l.conn.closed
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pending:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *fakeListener) Addr() net.Addr { return &net.UnixAddr{} }
func (l *fakeListener) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

type fakeConn struct {
	fed    bool
	closed chan struct{}
}

func (c *fakeConn) Read(p []byte) (int, error) {
	if c.fed {
		return 0, io.EOF
	}
	c.fed = true
	p[0] = 'x'
	return 1, nil
}
func (c *fakeConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *fakeConn) Close() error                     { c.closed <- struct{}{}; return nil }
func (c *fakeConn) LocalAddr() net.Addr              { return nil }
func (c *fakeConn) RemoteAddr() net.Addr             { return nil }
func (c *fakeConn) SetDeadline(time.Time) error      { return nil }
func (c *fakeConn) SetReadDeadline(time.Time) error  { return nil }
func (c *fakeConn) SetWriteDeadline(time.Time) error { return nil }

// TestConnectionAllocatesNothing: in steady state a connection costs the engine
// no allocation, and so no goroutine either.
func TestConnectionAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	ln := newFakeListener()
	serve(t, ln, &lineProtocol{closeAfter: true})
	for range 100 {
		ln.connect()
	}
	if n := testing.AllocsPerRun(2000, ln.connect); n != 0 {
		t.Errorf("a connection allocates %v times", n)
	}
}

// TestRoundTripAllocatesNothing does the same for a request, on a bare and on a wrapped socket.
func TestRoundTripAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, isWrapped := range []bool{false, true} {
		ln, dial := listenTCP(t)
		if isWrapped {
			ln = wrappingListener{ln}
		}
		serve(t, ln, &lineProtocol{})
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 1)
		for range 100 {
			exchange(t, c, buffer)
		}
		if n := testing.AllocsPerRun(2000, func() { exchange(t, c, buffer) }); n != 0 {
			t.Errorf("wrapped %v: a round trip allocates %v times", isWrapped, n)
		}
		_ = c.Close()
	}
}
