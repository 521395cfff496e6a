//go:build linux && (amd64 || arm64)

package epoll

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A connection that epoll does not take ends, and its protocol is told why.
func TestEpollRefuses(t *testing.T) {
	file, err := os.Open("/dev/null") // which epoll does not take
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ended := make(chan error, 1)
	a := &script{
		run: func(c *conn, out []byte) ([]byte, engine.Next) {
			inputOf(c)
			if c.slot().has(flagAdded) {
				t.Error("epoll knows the connection before it waits")
			}
			if err := syscall.Dup3(int(file.Fd()), c.fd, syscall.O_CLOEXEC); err != nil {
				t.Error(err)
			}
			return out, engine.Read
		},
		closed: func(err error) { ended <- err },
	}
	ln := listen(t)
	c := dial(t, ln)
	_, _ = c.Write([]byte("request")) // it is there before the engine looks
	d := serveOn(t, ln, a, engine.Options{})
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.EPERM) {
			t.Errorf("Closed got %v, want EPERM", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the connection goes on")
	}
	eventually(t, "it is counted out", func() bool { return d.open.Load() == 0 })
}

// Time-outs are kept in milliseconds and rounded up, so that a short one is not
// none. Those beyond what ticks can express are none.
func TestTimeoutsInSlots(t *testing.T) {
	d := swept()
	c := &conn{tenancy: tenancy{driver: d, place: d.table.open(3), fd: 3}}
	for timeout, want := range map[time.Duration]uint32{
		0: 0, -1: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Second: 1000,
		longestWait: uint32(longestWait / time.Millisecond), longestWait + 1: 0,
	} {
		c.SetWriteTimeout(timeout)
		if got := c.slot().writeTimeout; got != want {
			t.Errorf("a write time-out of %v is %d ms in the slot, want %d", timeout, got, want)
		}
		if limit := c.writeDeadline(); (limit != 0) != (want != 0) {
			t.Errorf("a write time-out of %v has the deadline %d", timeout, limit)
		}
		c.SetReadDeadline(1000, timeout)
		if wantAt := int64(1000 + timeout); want == 0 && c.deadline != 0 || want != 0 && c.deadline != wantAt {
			t.Errorf("a read time-out of %v at 1000 has the deadline %d", timeout, c.deadline)
		}
	}
}

// No connection has the generation 0, which is that of listeners.
func TestGenerationsWrapAround(t *testing.T) {
	var d driver
	d.generation.Store(1<<32 - 2)
	for _, want := range []uint32{1<<32 - 1, 1, 2} {
		if got := d.newGeneration(); got != want {
			t.Errorf("generation %d, want %d", got, want)
		}
	}
}

// What has come for an adopted connection is its own, and taken once.
func TestLeftovers(t *testing.T) {
	var d driver
	d.keepLeftover(3, 7, []byte("three"))
	d.keepLeftover(4, 7, []byte("four"))
	for _, step := range []struct {
		fd   int
		gen  uint32
		want string
		left int32
	}{
		{3, 8, "", 2}, {7, 3, "", 2}, {3, 7, "three", 1}, {3, 7, "", 1}, {4, 7, "four", 0}, {4, 7, "", 0},
	} {
		if got := string(d.takeLeftover(step.fd, step.gen)); got != step.want {
			t.Errorf("descriptor %d, generation %d: %q, want %q", step.fd, step.gen, got, step.want)
		}
		if n := d.leftovers.count.Load(); n != step.left {
			t.Errorf("%d are left, want %d", n, step.left)
		}
	}
}

// Keep-alive probes have the period that is asked for, in whole seconds.
func TestProbePeriods(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	option := func(level, name int) int {
		value, err := syscall.GetsockoptInt(fd, level, name)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, c := range []struct {
		period            time.Duration
		isOn, first, each int
	}{
		{7 * time.Second, 1, 7, 7},
		{0, 1, 7, 7}, // as it is
		{-1, 0, 7, 7},
		{0, 0, 7, 7},
		{2900 * time.Millisecond, 1, 2, 2},
		{time.Millisecond, 1, 1, 1},
	} {
		setProbes(fd, c.period)
		isOn := option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		first, each := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE), option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
		if isOn != c.isOn || first != c.first || each != c.each {
			t.Errorf("period %v: probes %d, first after %d s, then each %d s", c.period, isOn, first, each)
		}
	}
}

// The engine has numbers for so many listeners, and says when there are no more.
func TestTooManyListeners(t *testing.T) {
	e, err := New(engine.Options{Loops: 1}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	d := e.(*driver)
	defer d.closeLoops()
	all := make([]*serving, 1<<16)
	for i := range all {
		all[i] = &serving{driver: d}
	}
	free := all[1<<16-1]
	all[1<<16-1] = nil
	d.servings.Store(&all)
	s, err := d.enter(&serving{driver: d, acceptor: &script{}})
	if err != nil || s.index != 1<<16-1 || s == free {
		t.Fatalf("the last number: %v, %v", s, err)
	}
	if s, err := d.enter(&serving{driver: d, acceptor: &script{}}); err == nil {
		t.Errorf("one more has the number %d", s.index)
	}
	s.leave()
	if s, err := d.enter(&serving{driver: d, acceptor: &script{}}); err != nil || s.index != 1<<16-1 {
		t.Errorf("the number is not given back: %v", err)
	}
}

// deaf is a fallback engine that is not called.
type deaf struct{ engine.Engine }
