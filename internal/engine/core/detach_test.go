//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A connection that DetachIdle wants is killed before a worker sees to it:
// nobody waits for it for ever.
func TestDetachKilled(t *testing.T) {
	ln, entered, leave := listen(t), make(chan bool), make(chan bool)
	views := make(chan net.Conn, 2)
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		text := inputOf(c)
		views <- c.NetConn()
		if text == "block" {
			entered <- true
			<-leave
		}
		return append(out, text...), engine.Read
	}}
	d := serveOn(t, ln, a, engine.Options{MaxWorkers: 1})
	victim, blocker := dial(t, ln), dial(t, ln)
	ask(t, victim, "x")
	_, _ = blocker.Write([]byte("block"))
	<-entered
	eventually(t, "the victim waits", func() bool { return d.Stats().Active == 1 })
	given := make(chan int)
	go func() { given <- d.DetachIdle(-1, func(c net.Conn, _ engine.Parcel) { c.Close() }) }()
	eventually(t, "the victim is claimed", func() bool { return d.Stats().Active == 2 })
	_ = (<-views).Close()
	close(leave)
	if n := <-given; n != 0 {
		t.Errorf("%d connections were given away", n)
	}
}

// While take is slow, workers do not wait for it.
func TestDetachSlowTake(t *testing.T) {
	const count = 200
	ln := listen(t)
	d := serveOn(t, ln, newEcho(), engine.Options{})
	for range count {
		ask(t, dial(t, ln), "x")
	}
	eventually(t, "all wait", func() bool { return d.Stats().Active == 0 })
	var first sync.Once
	d.DetachIdle(-1, func(c net.Conn, _ engine.Parcel) {
		_ = c.Close()
		first.Do(func() {
			eventually(t, "all are out", func() bool { return d.countOpen() == 0 })
			eventually(t, "no worker waits", func() bool {
				for _, l := range d.Loops() {
					if l.IdleWorkers != l.Workers {
						return false
					}
				}
				return true
			})
		})
	})
}
