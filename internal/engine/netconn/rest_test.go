package netconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A readCounter counts the calls of Read.
type readCounter struct {
	net.Conn
	reads atomic.Int32
}

func (c *readCounter) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(p)
}

// serveResting serves one end of a pipe as if it were a socket, whose goroutine may rest. It
// returns the other end.
func serveResting(t *testing.T, a engine.Acceptor) (client net.Conn, served *readCounter) {
	client, server := net.Pipe()
	served = &readCounter{Conn: server}
	d := New(engine.Options{}).(*driver)
	c := d.newConn(served, a, nil)
	c.mayGo, c.isOurs, c.canRest = true, true, true
	c.register()
	go c.run()
	t.Cleanup(func() {
		_ = client.Close()
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client, served
}

// TestRestIsQuiet: a connection that rests is not woken before its peer sends something, or
// its time is over.
func TestRestIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, served := serveResting(t, &lineProtocol{})
		for range 3 {
			one := []byte{'?'}
			if _, err := client.Write(one); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Read(one); err != nil || one[0] != 'x' {
				t.Fatal(one, err)
			}
			time.Sleep(time.Minute)
			before := served.reads.Load()
			time.Sleep(time.Hour)
			if woken := served.reads.Load() - before; woken > 0 {
				t.Errorf("it was woken %d times within an hour", woken)
			}
		}
	})
}
