//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A refusing source takes no connections, only listeners.
type refusing struct{ *pollSource }

func (r refusing) Open() (Poller, error) {
	p, err := r.pollSource.Open()
	return refusingPoller{p}, err
}

type refusingPoller struct{ Poller }

func (p refusingPoller) Add(fd int, token uint64) error {
	if generation(token) != 0 {
		return syscall.EPERM
	}
	return p.Poller.Add(fd, token)
}

// A connection that the source does not take ends, and its protocol is told why.
func TestSourceRefuses(t *testing.T) {
	ended := make(chan error, 1)
	a := &script{
		run: func(c *conn, out []byte) ([]byte, engine.Next) {
			inputOf(c)
			if c.slot().has(flagAdded) {
				t.Error("the source knows the connection before it waits")
			}
			return out, engine.Read
		},
		closed: func(err error) { ended <- err },
	}
	ln := listen(t)
	c := dial(t, ln)
	_, _ = c.Write([]byte("request")) // it is there before the engine looks
	d := serveOver(t, refusing{newPollSource()}, ln, a, engine.Options{})
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.EPERM) {
			t.Errorf("Closed got %v, want EPERM", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the connection goes on")
	}
	eventually(t, "it is counted out", func() bool { return d.countOpen() == 0 })
}

// Time-outs are kept in milliseconds and rounded up, so that a short one is not
// none. Those beyond what ticks can express are none.
func TestTimeoutsInSlots(t *testing.T) {
	d := swept()
	c := &conn{connState: connState{driver: d, place: d.table.open(3), fd: 3}}
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
		if wantAt := deadlineOf(1000, timeout); want == 0 && c.deadline != 0 || want != 0 && c.deadline != wantAt {
			t.Errorf("a read time-out of %v at 1000 has the deadline %d", timeout, c.deadline)
		}
	}
}

// No connection has the generation 0, which is that of listeners.
func TestGenerationsWrapAround(t *testing.T) {
	var c chunk
	c.generation.Store(1<<32 - 2)
	for _, want := range []uint32{1<<32 - 1, 1, 2} {
		if got := c.newGeneration(); got != want {
			t.Errorf("generation %d, want %d", got, want)
		}
	}
}

// What has come for an adopted connection is its own, and taken once.
func TestParcels(t *testing.T) {
	var d driver
	d.keepParcel(3, 7, engine.Parcel{Leftover: []byte("three")})
	d.keepParcel(4, 7, engine.Parcel{Leftover: []byte("four")})
	for _, step := range []struct {
		fd   int
		gen  uint32
		want string
		left int32
	}{
		{3, 8, "", 2}, {7, 3, "", 2}, {3, 7, "three", 1}, {3, 7, "", 1}, {4, 7, "four", 0}, {4, 7, "", 0},
	} {
		if got := string(d.takeParcel(step.fd, step.gen).Leftover); got != step.want {
			t.Errorf("descriptor %d, generation %d: %q, want %q", step.fd, step.gen, got, step.want)
		}
		if n := d.parcels.count.Load(); n != step.left {
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
	e, err := newEngine(engine.Options{Loops: 1}, deaf{})
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
	s.letGo()
	if s, err := d.enter(&serving{driver: d, acceptor: &script{}}); err != nil || s.index != 1<<16-1 {
		t.Errorf("the number is not given back: %v", err)
	}
}

// deaf is a fallback engine that is not called.
type deaf struct{ engine.Engine }
