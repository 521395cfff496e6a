package http1

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// TestConnWrites: a large request is written in pieces, which are counted; an error is kept, with what
// was written before it.
func TestConnWrites(t *testing.T) {
	stub := &stubConn{failAt: 5}
	cc := newConn(stub)
	if n, err := cc.Write(make([]byte, 2*maxWrite+10)); n != 2*maxWrite+10 || err != nil || cc.written.Load() != int64(n) || cc.writeErr != nil {
		t.Errorf("%d, %v, %d, %v", n, err, cc.written.Load(), cc.writeErr)
	}
	if n, err := cc.Write(make([]byte, 3*maxWrite)); n != maxWrite+7 || err != errStub || cc.written.Load() != 3*maxWrite+17 || cc.writeErr != errStub {
		t.Errorf("%d, %v, %d, %v", n, err, cc.written.Load(), cc.writeErr)
	}
	const most = 256 << 10
	if want := []int{most, most, 10, most, most}; !slices.Equal(stub.writes, want) {
		t.Errorf("pieces of %v, want %v", stub.writes, want)
	}
}

// TestConnLimits: deadlines are set when there is a limit, cleared when one was set, and overwritten
// when the context has ended.
func TestConnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &stubConn{}
		cc := newConn(stub)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var timed clock.Bounds
		timed.Allow(time.Minute)
		for _, step := range []struct {
			what string
			do   func() error
			want []string
			has  bool // a deadline may be set
		}{
			{"clear none", cc.ClearLimits, nil, false},
			{"read without a limit", func() error { return cc.setReadLimit(new(clock.Bounds), 0) }, nil, false},
			{"write without a limit", func() error { return cc.setWriteLimit(new(clock.Bounds), 0) }, nil, false},
			{"read within a second", func() error { return cc.setReadLimit(new(clock.Bounds), time.Second) }, []string{"read 1s"}, true},
			{"clear", cc.ClearLimits, []string{"both none"}, false},
			{"read within the call", func() error { return cc.setReadLimit(&timed, 0) }, []string{"read 1m0s"}, true},
			{"clear", cc.ClearLimits, []string{"both none"}, false},
			{"write within a second", func() error { return cc.setWriteLimit(&timed, time.Second) }, []string{"write 1s"}, true},
			{"clear", cc.ClearLimits, []string{"both none"}, false},
			{"write within the call", func() error { return cc.setWriteLimit(&timed, time.Hour) }, []string{"write 1m0s"}, true},
			{"after the end", func() error { return cc.setReadLimit(&clock.Bounds{Context: ended}, time.Second) }, []string{"read 1s", "both past"}, true},
			{"before the end", func() error {
				return cc.setReadLimit(&clock.Bounds{Context: t.Context()}, time.Second)
			}, []string{"read 1s"}, true},
		} {
			stub.told = nil
			if err := step.do(); err != nil || !slices.Equal(stub.told, step.want) || cc.hasDeadline != step.has {
				t.Errorf("%s: %v, %q, %v; want %q, %v", step.what, err, stub.told, cc.hasDeadline, step.want, step.has)
			}
		}
		stub.limitErr = errStub
		for what, err := range map[string]error{
			"read": cc.setReadLimit(&timed, 0), "write": cc.setWriteLimit(&timed, 0), "clear": cc.ClearLimits(),
		} {
			if err != errStub {
				t.Errorf("%s: error %v", what, err)
			}
		}
		if g := cc.guard(context.Background()); g.stop != nil || g.own != nil {
			t.Error("a guard of a context that cannot end")
		}
		stub.told = nil
		if g := cc.guard(ended); g.stop == nil || g.end(cc) {
			t.Error("no guard of a context that has ended")
		}
		synctest.Wait()
		if !slices.Equal(stub.told, []string{"both past"}) {
			t.Errorf("the guard did %q", stub.told)
		}
	})
}

// TestLongReadLimit: a long time-out that is the only limit gets a later deadline, which is kept
// while it is at least the time-out away.
func TestLongReadLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &stubConn{}
		cc := newConn(stub)
		var timed clock.Bounds
		timed.Allow(time.Minute)
		for _, step := range []struct {
			what string
			do   func() error
			want []string
		}{
			{"read within a long time", func() error { return cc.setReadLimit(new(clock.Bounds), 32*time.Second) }, []string{"read 33s"}},
			{"again, soon", func() error {
				time.Sleep(time.Second)
				return cc.setReadLimit(new(clock.Bounds), 32*time.Second)
			}, nil},
			{"again, too late", func() error {
				time.Sleep(time.Nanosecond)
				return cc.setReadLimit(new(clock.Bounds), 32*time.Second)
			}, []string{"read 33s"}},
			{"a shorter one", func() error { return cc.setReadLimit(new(clock.Bounds), 16*time.Second) }, []string{"read 16.5s"}},
			{"within the call, too", func() error { return cc.setReadLimit(&timed, 16*time.Second) }, []string{"read 16s"}},
			{"alone again", func() error { return cc.setReadLimit(new(clock.Bounds), 16*time.Second) }, []string{"read 16.5s"}},
			{"after one from outside", func() error {
				cc.NoteDeadline()
				return cc.setReadLimit(new(clock.Bounds), 16*time.Second)
			}, []string{"read 16.5s"}},
		} {
			stub.told = nil
			if err := step.do(); err != nil || !slices.Equal(stub.told, step.want) || !cc.hasDeadline {
				t.Errorf("%s: %v, %q, %v; want %q", step.what, err, stub.told, cc.hasDeadline, step.want)
			}
		}
		cc.NoteDeadline()
		stub.limitErr = errStub
		for range 2 { // what has failed is tried again
			if err := cc.setReadLimit(new(clock.Bounds), time.Minute); err != errStub {
				t.Error(err)
			}
		}
	})
}

// TestLimitTurn: Tick, in place of the clock, says that a limit is late enough.
func TestLimitTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &stubConn{}
		cc := newConn(stub)
		var timed clock.Bounds
		timed.Allow(time.Hour)
		for _, step := range []struct {
			what    string
			pause   time.Duration
			age     time.Duration // of Tick; < 0: it stays
			timeout time.Duration
			call    *clock.Bounds
			want    []string
		}{
			{"the first", 0, 0, 64 * time.Second, new(clock.Bounds), []string{"read 1m6s"}},
			{"the clock is not looked at", 3 * time.Second, -1, 64 * time.Second, new(clock.Bounds), nil},
			{"again, too late", 0, time.Second / 2, 64 * time.Second, new(clock.Bounds), []string{"read 1m6s"}},
			{"again, soon", 5 * time.Second / 4, time.Second / 4, 64 * time.Second, new(clock.Bounds), nil},
			{"again, so late that Tick says too little", time.Second / 2, time.Second / 4, 64 * time.Second, new(clock.Bounds), []string{"read 1m6s"}},
			{"the clock is not looked at", 3 * time.Second, -1, 64 * time.Second, new(clock.Bounds), nil},
			{"a shorter one", 0, 0, 32 * time.Second, new(clock.Bounds), []string{"read 33s"}},
			{"again, although Tick never says enough", time.Second, 0, 32 * time.Second, new(clock.Bounds), nil},
			{"within the call, too", 0, 0, 32 * time.Second, &timed, []string{"read 32s"}},
			{"a short one", 0, 0, time.Second, new(clock.Bounds), []string{"read 1s"}},
		} {
			time.Sleep(step.pause)
			if step.age >= 0 {
				cc.Tick = clock.Nanos() - int64(step.age)
			}
			stub.told = nil
			if err := cc.limitTurn(step.call, step.timeout); err != nil || !slices.Equal(stub.told, step.want) {
				t.Errorf("%s: %v, %q, want %q", step.what, err, stub.told, step.want)
			}
		}
	})
}

// TestConnIsQuiet: an idle TLS connection is tested with a deadline in the past. If none can be set, it
// is not used: reading might wait for ever.
func TestConnIsQuiet(t *testing.T) {
	for _, err := range []error{nil, errStub} {
		stub := &stubConn{limitErr: err}
		cc := newConn(tls.Client(stub, &tls.Config{InsecureSkipVerify: true}))
		if got := cc.IsQuiet(false); got != (err == nil) || cc.hasDeadline != got || stub.told[0] != "read past" {
			t.Errorf("%v: quiet %v, %q", err, got, stub.told)
		}
		if cc.WasSpokenTo() {
			t.Errorf("%v: the server has spoken", err)
		}
	}
	if cc := newConn(&stubConn{}); !cc.IsQuiet(false) || cc.WasSpokenTo() || cc.hasDeadline {
		t.Error("a connection that cannot be tested is not quiet")
	}
}

// TestInput: a pooled input has neither bytes nor an error of its last source.
func TestInput(t *testing.T) {
	failing := acquireInput(newConn(&stubConn{}), 64)
	if _, err := failing.Peek(1); err != os.ErrDeadlineExceeded || !failing.failed {
		t.Errorf("%v, %v", err, failing.failed)
	}
	releaseInput(failing)
	lines := strings.Repeat("x", 1000)
	full := acquireInput(newConn(&stubConn{in: lines}), 64)
	if _, err := full.Peek(2); err != nil || full.Buffered() == 0 || full.Size() != 64 {
		t.Errorf("%v, %d of %d bytes", err, full.Buffered(), full.Size())
	}
	releaseInput(full)
	for _, in := range []*input{failing, full} {
		if in.failed || in.Buffered() != 0 {
			t.Errorf("failed %v, %d bytes", in.failed, in.Buffered())
		}
	}
	for _, size := range []int{64, 100, 64} {
		in := acquireInput(newConn(&stubConn{in: lines}), size)
		if _, err := in.ReadByte(); err != nil || in.Size() != size {
			t.Errorf("%v, a buffer of %d bytes", err, in.Size())
		}
		releaseInput(in)
		if in.src != nil {
			t.Error("a pooled input has a source")
		}
	}
}

// TestCloseWriteDoesNotWait: after a failed write over TLS, the end is that of the
// connection below: package tls would wait until the peer takes its last alert.
func TestCloseWriteDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // which holds nothing: a write waits for its reader
		defer far.Close()
		below := &halfConn{Conn: near}
		certificate, err := selfsigned.New("")
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true}
		go func() { _ = tls.Server(far, config).Handshake() }()
		secure := tls.Client(below, &tls.Config{InsecureSkipVerify: true})
		if err := secure.Handshake(); err != nil {
			t.Fatal(err)
		}
		c := newConn(secure)
		c.writeErr = errStub
		began := time.Now()
		if c.closeWrite(); below.ends != 1 || time.Since(began) != 0 {
			t.Errorf("%d ends after %v", below.ends, time.Since(began))
		}
		_ = near.Close()
	})
}

// halfConn counts how often its writing side was closed.
type halfConn struct {
	net.Conn
	ends int
}

func (c *halfConn) CloseWrite() error {
	c.ends++
	return nil
}
