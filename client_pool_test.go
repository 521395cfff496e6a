package sluice

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// pipeHost is a client whose connections are pipes to a peer that only reads.
func pipeHost(idle time.Duration) *HostClient {
	return &HostClient{
		Addr:                "host.test:80",
		MaxIdleConnDuration: idle,
		Dial: func(string) (net.Conn, error) {
			mine, other := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, other)
				other.Close()
			}()
			return mine, nil
		},
	}
}

// TestPoolWaitIsAPhase: also of an attempt after one that came further.
func TestPoolWaitIsAPhase(t *testing.T) {
	c := pipeHost(time.Hour)
	c.MaxConns = 1
	cc, err := c.AcquireConn(0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseConn(cc)
	call := &clientCall{phase: PhaseRead}
	if _, _, err := c.acquire(call, forHTTP1); err != ErrNoFreeConns || call.phase != PhaseWait {
		t.Errorf("%v in phase %v", err, call.phase)
	}
}

// TestClientPoolSettings: what the fields of a HostClient make of the pools.
func TestClientPoolSettings(t *testing.T) {
	var c HostClient
	if s := c.poolSettings(); s.MaxConns != 512 || s.MaxIdle != 10*time.Second || s.IsLIFO {
		t.Errorf("%+v", s)
	}
	if s := c.http2Settings(); s.MaxConns != 4 || s.MaxIdle != 10*time.Second || s.MaxAge != 0 {
		t.Errorf("%+v", s)
	}
	c = HostClient{MaxConns: 1, MaxHTTP2Conns: 1, MaxIdleConnDuration: 1, MaxConnDuration: 2, ConnPoolStrategy: LIFO}
	if s := c.poolSettings(); s.MaxConns != 1 || s.MaxIdle != 1 || !s.IsLIFO {
		t.Errorf("%+v", s)
	}
	if s := c.http2Settings(); s.MaxConns != 1 || s.MaxIdle != 1 || s.MaxAge != 2 {
		t.Errorf("%+v", s)
	}
	c.MaxConns = -1
	if s := c.poolSettings(); s.MaxConns != 512 {
		t.Errorf("%+v", s)
	}
}

// TestAcquirePhase: a call that looks for a connection is in PhaseWait, also after an
// attempt that came further.
func TestAcquirePhase(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := &HostClient{Addr: "h:80", HTTP2: HTTP2Only, Dial: func(string) (net.Conn, error) { panic("dialed") }}
	for _, kind := range []connKind{forHTTP1, forTurn, forEither} {
		var phase *PhaseError
		if _, _, err := c.acquire(&clientCall{Bounds: clock.Bounds{Context: ended}, phase: PhaseRead}, kind); !errors.As(err, &phase) || phase.Phase != PhaseWait {
			t.Errorf("%d: %v", kind, err)
		}
	}
}

// TestClientPools: what is returned to a pool is used again.
func TestClientPools(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector drops values of pools")
	}
	var c HostClient
	var pipeline PipelineClient
	var sent Request
	stub := &stubConn{}
	for name, use := range map[string]func(){
		"reader":   func() { c.ReleaseReader(c.AcquireReader(stub)) },
		"writer":   func() { c.ReleaseWriter(c.AcquireWriter(stub)) },
		"fetching": func() { releaseFetching(acquireFetching()) },
		"call":     func() { beginCall(&sent).end(&sent) },
		"stream":   func() { releaseHTTP2Call(acquireHTTP2Call()) },
		"timer":    func() { ReleaseTimer(AcquireTimer(time.Hour)) },
		"work":     func() { pipeline.works.release(pipeline.works.acquire(&pipeline)) },
	} {
		if n := testing.AllocsPerRun(100, use); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	f := acquireFetching()
	f.req.SetBodyString("body")
	f.resp.SetBodyString("body")
	f.req.call = &clientCall{wants: wantsBytes}
	if releaseFetching(f); len(f.req.Body())+len(f.resp.Body()) != 0 || f.req.call != nil {
		t.Errorf("%q, %q, %+v", f.req.Body(), f.resp.Body(), f.req.call)
	}
}

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

func (c *stubConn) SetDeadline(at time.Time) error { return c.tell("both", at) }

func (c *stubConn) SetReadDeadline(at time.Time) error { return c.tell("read", at) }

func (c *stubConn) SetWriteDeadline(at time.Time) error { return c.tell("write", at) }

func (c *stubConn) Close() error { c.told = append(c.told, "close"); return nil }
