package sluice

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// stubConn is a connection without a peer. It tells what it was asked.
type stubConn struct {
	net.Conn
	told     []string
	writes   []int
	failAt   int    // the number of the Write that fails, from 1
	limitErr error  // of setting a deadline
	failing  string // the only deadline whose setting fails; "": all
}

var errStub = errors.New("stub")

func (c *stubConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	if len(c.writes) == c.failAt {
		return 7, errStub
	}
	return len(p), nil
}

func (c *stubConn) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func (c *stubConn) tell(what string, at time.Time) error {
	switch {
	case at.IsZero():
		what += " none"
	case at.Equal(clock.Past()):
		what += " past"
	default:
		what += " " + time.Until(at).String()
	}
	c.told = append(c.told, what)
	if !strings.HasPrefix(what, c.failing) {
		return nil
	}
	return c.limitErr
}

func (c *stubConn) SetDeadline(at time.Time) error      { return c.tell("both", at) }
func (c *stubConn) SetReadDeadline(at time.Time) error  { return c.tell("read", at) }
func (c *stubConn) SetWriteDeadline(at time.Time) error { return c.tell("write", at) }
func (c *stubConn) Close() error                        { c.told = append(c.told, "close"); return nil }

// A large request is written in pieces, which are counted; an error is kept, with what
// was written before it.
func TestClientConnWrites(t *testing.T) {
	stub := &stubConn{failAt: 5}
	cc := newClientConn(stub, "h:80")
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

// Deadlines are set when there is a limit, cleared when one was set, and overwritten
// when the context has ended.
func TestClientConnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &stubConn{}
		cc := newClientConn(stub, "h:80")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var timed clientCall
		timed.Allow(time.Minute)
		for _, step := range []struct {
			what string
			do   func() error
			want []string
			has  bool // a deadline may be set
		}{
			{"clear none", cc.clearLimits, nil, false},
			{"read without a limit", func() error { return cc.setReadLimit(new(clientCall), 0) }, nil, false},
			{"write without a limit", func() error { return cc.setWriteLimit(new(clientCall), 0) }, nil, false},
			{"read within a second", func() error { return cc.setReadLimit(new(clientCall), time.Second) }, []string{"read 1s"}, true},
			{"clear", cc.clearLimits, []string{"both none"}, false},
			{"read within the call", func() error { return cc.setReadLimit(&timed, 0) }, []string{"read 1m0s"}, true},
			{"clear", cc.clearLimits, []string{"both none"}, false},
			{"write within a second", func() error { return cc.setWriteLimit(&timed, time.Second) }, []string{"write 1s"}, true},
			{"clear", cc.clearLimits, []string{"both none"}, false},
			{"write within the call", func() error { return cc.setWriteLimit(&timed, time.Hour) }, []string{"write 1m0s"}, true},
			{"after the end", func() error { return cc.setReadLimit(&clientCall{Bounds: clock.Bounds{Context: ended}}, time.Second) }, []string{"read 1s", "both past"}, true},
			{"before the end", func() error {
				return cc.setReadLimit(&clientCall{Bounds: clock.Bounds{Context: t.Context()}}, time.Second)
			}, []string{"read 1s"}, true},
		} {
			stub.told = nil
			if err := step.do(); err != nil || !slices.Equal(stub.told, step.want) || cc.hasDeadline != step.has {
				t.Errorf("%s: %v, %q, %v; want %q, %v", step.what, err, stub.told, cc.hasDeadline, step.want, step.has)
			}
		}
		stub.limitErr = errStub
		for what, err := range map[string]error{
			"read": cc.setReadLimit(&timed, 0), "write": cc.setWriteLimit(&timed, 0), "clear": cc.clearLimits(),
		} {
			if err != errStub {
				t.Errorf("%s: error %v", what, err)
			}
		}
		var none context.Context
		if cc.guard(none) != nil || cc.guard(context.Background()) != nil {
			t.Error("a guard of a context that cannot end")
		}
		stub.told = nil
		if stop := cc.guard(ended); stop == nil || stop() {
			t.Error("no guard of a context that has ended")
		}
		synctest.Wait()
		if !slices.Equal(stub.told, []string{"both past"}) {
			t.Errorf("the guard did %q", stub.told)
		}
	})
}

// An idle TLS connection is tested with a deadline in the past. If none can be set, it
// is not used: reading might wait for ever.
func TestClientConnIsQuiet(t *testing.T) {
	for _, err := range []error{nil, errStub} {
		stub := &stubConn{limitErr: err}
		cc := newClientConn(tls.Client(stub, &tls.Config{InsecureSkipVerify: true}), "h:443")
		if got := cc.isQuiet(); got != (err == nil) || cc.hasDeadline != got || stub.told[0] != "read past" {
			t.Errorf("%v: quiet %v, %q", err, got, stub.told)
		}
		if cc.wasSpokenTo() {
			t.Errorf("%v: the server has spoken", err)
		}
	}
	if cc := newClientConn(&stubConn{}, "h:80"); !cc.isQuiet() || cc.wasSpokenTo() || cc.hasDeadline {
		t.Error("a connection that cannot be tested is not quiet")
	}
}

// The buffers that custom RoundTrippers get have the sizes of the fields, and come from
// the pools without what the last user left.
func TestClientBuffers(t *testing.T) {
	for _, c := range []*HostClient{{}, {ReadBufferSize: 100, WriteBufferSize: 200}, {}} {
		read, write := 4096, 4096
		if c.ReadBufferSize > 0 {
			read, write = 100, 200
		}
		for range 3 {
			stub := &stubConn{}
			br, bw := c.AcquireReader(stub), c.AcquireWriter(stub)
			if br.Size() != read || bw.Size() != write || br.Buffered() != 0 || bw.Buffered() != 0 {
				t.Fatalf("sizes %d and %d, %d and %d bytes in them", br.Size(), bw.Size(), br.Buffered(), bw.Buffered())
			}
			if _, err := br.ReadByte(); err != os.ErrDeadlineExceeded {
				t.Errorf("reads from another: %v", err)
			}
			_, _ = bw.WriteString("one")
			if err := bw.Flush(); err != nil || !slices.Equal(stub.writes, []int{3}) {
				t.Errorf("%v, %v", err, stub.writes)
			}
			_, _ = bw.WriteString("rest")
			c.ReleaseReader(br)
			c.ReleaseWriter(bw)
			if bw.Buffered() != 0 {
				t.Error("a pooled writer has bytes")
			}
		}
	}
}

// A pooled input has neither bytes nor an error of its last source.
func TestClientInput(t *testing.T) {
	failing := acquireClientInput(&stubConn{}, 64)
	if _, err := failing.Peek(1); err != os.ErrDeadlineExceeded || !failing.failed {
		t.Errorf("%v, %v", err, failing.failed)
	}
	releaseClientInput(failing)
	lines := strings.Repeat("x", 1000)
	full := acquireClientInput(strings.NewReader(lines), 64)
	if _, err := full.Peek(2); err != nil || full.Buffered() == 0 || full.Size() != 64 {
		t.Errorf("%v, %d of %d bytes", err, full.Buffered(), full.Size())
	}
	releaseClientInput(full)
	for _, in := range []*clientInput{failing, full} {
		if in.failed || in.Buffered() != 0 {
			t.Errorf("failed %v, %d bytes", in.failed, in.Buffered())
		}
	}
	for _, size := range []int{64, 100, 64} {
		in := acquireClientInput(strings.NewReader(lines), size)
		if _, err := in.ReadByte(); err != nil || in.Size() != size {
			t.Errorf("%v, a buffer of %d bytes", err, in.Size())
		}
		releaseClientInput(in)
		if in.src != nil {
			t.Error("a pooled input has a source")
		}
	}
}
