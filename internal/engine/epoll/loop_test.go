//go:build linux && (amd64 || arm64)

package epoll

import (
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// More connections have input at once than a pass takes in one go. Nobody tells
// the loop a second time.
func TestManyEventsAtOnce(t *testing.T) {
	const count = 6 * eventsPerPass
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 2*count+500 {
		t.Skip("too few descriptors")
	}
	ln := listen(t)
	d := serveOn(t, ln, newEcho(), engine.Options{})
	conns := make([]net.Conn, count)
	for i := range conns {
		conns[i] = dial(t, ln)
	}
	eventually(t, "all wait", func() bool {
		s := d.Stats()
		return s.Open == count && s.Active == 0
	})
	for _, l := range d.loops { // they stop at the first event
		l.queue.mu.Lock()
	}
	for _, c := range conns {
		_, _ = c.Write([]byte("x"))
	}
	// Go's poller has seen all of it when something later has arrived.
	other := listen(t)
	defer other.Close()
	go func() {
		if c, err := other.Accept(); err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	ask(t, dial(t, other), "later")
	for _, l := range d.loops {
		l.queue.mu.Unlock()
	}
	for _, c := range conns {
		expect(t, c, "x")
	}
}
