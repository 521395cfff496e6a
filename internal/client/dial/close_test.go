package dial

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// secureConn is a connection with TLS that waits in Close until the one below is closed.
type secureConn struct {
	net.Conn
	below net.Conn
	waits <-chan bool // nil: Close does not wait
}

func (c *secureConn) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }

func (c *secureConn) NetConn() net.Conn { return c.below }

func (c *secureConn) Close() error {
	if c.waits != nil {
		<-c.waits
	}
	return c.below.Close()
}

// TestCloseWaitsForTheAlert: at most a tenth of a second.
func TestCloseWaitsForTheAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := &fakeConn{}
		if Close(plain); !plain.isClosed.Load() {
			t.Error("a plain connection is open")
		}
		below := &fakeConn{}
		if Close(&secureConn{below: below}); !below.isClosed.Load() {
			t.Error("a connection with TLS is open")
		}
		stuck := &closingOnce{closed: make(chan bool)}
		began := time.Now()
		if Close(&secureConn{below: stuck, waits: stuck.closed}); time.Since(began) != 100*time.Millisecond {
			t.Errorf("closing took %v", time.Since(began))
		}
	})
}

// closingOnce is a connection that may be closed twice.
type closingOnce struct {
	net.Conn
	closed   chan bool
	isClosed bool
}

func (c *closingOnce) Close() error {
	if !c.isClosed {
		c.isClosed = true
		close(c.closed)
	}
	return nil
}

// TestCutSendsNoAlert: it closes what is below all layers of TLS.
func TestCutSendsNoAlert(t *testing.T) {
	below := &fakeConn{}
	if Cut(&secureConn{below: &secureConn{below: below, waits: make(chan bool)}, waits: make(chan bool)}); !below.isClosed.Load() {
		t.Error("the connection is open")
	}
}
