package engine

import (
	"errors"
	"math"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A fakeHost notes how it is interrupted.
type fakeHost struct {
	net.Conn
	reads, writes []time.Time
}

func (h *fakeHost) Read(p []byte) (int, error)  { return copy(p, "in"), nil }
func (h *fakeHost) Write(p []byte) (int, error) { return len(p), nil }
func (h *fakeHost) LocalAddr() net.Addr         { return &net.UnixAddr{Name: "host"} }
func (h *fakeHost) RemoteAddr() net.Addr        { return &net.UnixAddr{Name: "peer"} }
func (h *fakeHost) InterruptRead(t time.Time)   { h.reads = append(h.reads, t) }
func (h *fakeHost) InterruptWrite(t time.Time)  { h.writes = append(h.writes, t) }

func newBlocking(t *testing.T) (*BlockingConn, *fakeHost) {
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	host := &fakeHost{}
	return NewBlockingConn(host, server), host
}

func TestBlockingConnDeadlines(t *testing.T) {
	b, host := newBlocking(t)
	const otherwise = 42
	if b.ReadLimit(otherwise) != otherwise || b.WriteLimit(otherwise) != otherwise || b.ReadIsOverridden() || b.WriteIsOverridden() {
		t.Error("a limit is overridden before it is set")
	}
	for _, test := range []struct {
		name     string
		t        time.Time
		min, max int64 // of the limit, from now
	}{
		{"later", time.Now().Add(time.Hour), int64(59 * time.Minute), int64(time.Hour)},
		{"past", time.Unix(1, 0), math.MinInt64, 0},
	} {
		now := clock.Nanos()
		if err := b.SetDeadline(test.t); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{b.ReadLimit(otherwise), b.WriteLimit(otherwise)} {
			if limit <= 0 || limit-now < test.min || limit-now > test.max {
				t.Errorf("%s: the limit is %d from now, want %d to %d", test.name, limit-now, test.min, test.max)
			}
		}
	}
	if err := b.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if b.ReadLimit(otherwise) != 0 || b.WriteLimit(otherwise) != 0 || !b.ReadIsOverridden() || !b.WriteIsOverridden() {
		t.Error("no deadline does not override one")
	}
	if len(host.reads) != 3 || len(host.writes) != 3 {
		t.Errorf("%d and %d interruptions for 3 deadlines", len(host.reads), len(host.writes))
	}
}

func TestBlockingConnClose(t *testing.T) {
	b, host := newBlocking(t)
	if err := b.Close(); err != nil || !b.IsClosed() {
		t.Fatalf("Close: %v, is closed: %v", err, b.IsClosed())
	}
	if limit := b.ReadLimit(0); limit <= 0 || limit > clock.Nanos() {
		t.Errorf("reads have a limit of %d", limit)
	}
	if b.WriteLimit(7) != 7 {
		t.Error("Close moves the limit of writes")
	}
	if len(host.reads) != 1 || !host.reads[0].Before(time.Now()) || len(host.writes) != 0 {
		t.Errorf("Close interrupts reads with %v, writes with %v", host.reads, host.writes)
	}
	expectClosed(t, b)
}

func TestBlockingConnSevered(t *testing.T) {
	b, host := newBlocking(t)
	var p [2]byte
	if n, err := b.Read(p[:]); n != 2 || err != nil {
		t.Errorf("Read: %d, %v", n, err)
	}
	if n, err := b.Write(p[:]); n != 2 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	if b.LocalAddr().String() != "host" || b.RemoteAddr().String() != "peer" {
		t.Error("the addresses are not the host's")
	}
	b.Sever()
	expectClosed(t, b)
	if b.LocalAddr().String() != "pipe" || b.RemoteAddr().String() != "pipe" {
		t.Error("the addresses are not those of the other connection")
	}
	if len(host.reads)+len(host.writes) != 0 || b.IsClosed() {
		t.Error("severing is not closing")
	}
}

// expectClosed expects net.ErrClosed from everything.
func expectClosed(t *testing.T, b *BlockingConn) {
	t.Helper()
	_, read := b.Read(make([]byte, 1))
	_, write := b.Write(make([]byte, 1))
	for name, err := range map[string]error{
		"Read": read, "Write": write, "Close": b.Close(), "SetDeadline": b.SetDeadline(time.Now()),
		"SetReadDeadline": b.SetReadDeadline(time.Now()), "SetWriteDeadline": b.SetWriteDeadline(time.Now()),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// CloseWrite implements BlockingHost.
func (*fakeHost) CloseWrite() error { return errors.ErrUnsupported }

// TestCloseWriteOfABlockingConn: it is the host's, until the Run ends.
func TestCloseWriteOfABlockingConn(t *testing.T) {
	b, _ := newBlocking(t)
	if err := b.CloseWrite(); err != errors.ErrUnsupported {
		t.Error(err)
	}
	b.Sever()
	if err := b.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// waitingHost is a fakeHost whose reads and writes wait for an interruption.
type waitingHost struct {
	*fakeHost
	entered, interrupted chan bool
}

func (h *waitingHost) wait() (int, error) {
	h.entered <- true
	<-h.interrupted
	return 0, errors.New("interrupted")
}
func (h *waitingHost) Read([]byte) (int, error)  { return h.wait() }
func (h *waitingHost) Write([]byte) (int, error) { return h.wait() }
func (h *waitingHost) InterruptRead(time.Time)   { h.interrupted <- true }
func (h *waitingHost) InterruptWrite(time.Time)  { h.interrupted <- true }

// TestSeverWaits: calls that are inside end, with net.ErrClosed, before Sever returns.
func TestSeverWaits(t *testing.T) {
	b, fake := newBlocking(t)
	host := &waitingHost{fake, make(chan bool), make(chan bool, 2)}
	b = NewBlockingConn(host, b.addresses)
	errs := make(chan error, 2)
	go func() { _, err := b.Read(make([]byte, 1)); errs <- err }()
	<-host.entered
	go func() { _, err := b.Write(make([]byte, 1)); errs <- err }()
	<-host.entered
	if n := b.Inside(); n != 2 {
		t.Errorf("%d calls are inside", n)
	}
	b.Sever()
	if n := b.Inside(); n != 0 || !b.IsOver() || !b.HasWritten() {
		t.Errorf("%d calls are inside after Sever", n)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	b.BreakWrite() // has nothing to break
}

// TestEndOfWrites: the Protocol may end the user's writes, and break them.
func TestEndOfWrites(t *testing.T) {
	b, host := newBlocking(t)
	b.EndWrites()
	if _, err := b.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	b.BreakWrite()
	if limit := b.WriteLimit(0); limit <= 0 || limit > clock.Nanos() || len(host.writes) != 1 {
		t.Errorf("writes have a limit of %d, and were interrupted with %v", limit, host.writes)
	}
}
