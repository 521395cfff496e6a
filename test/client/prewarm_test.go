package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestPrewarm(t *testing.T) {
	noNewGoroutines(t)
	dial := inMemory(t, func(ctx *sluice.RequestCtx) {})
	var dials atomic.Int32
	c := &sluice.HostClient{Addr: "x:80", MaxConns: 5, Dial: func(addr string) (net.Conn, error) {
		dials.Add(1)
		return dial(addr)
	}}
	t.Cleanup(c.CloseIdleConnections)
	for _, tc := range []struct{ n, conns int }{{0, 0}, {-1, 0}, {2, 2}, {2, 2}, {4, 4}, {100, 5}} {
		if err := c.Prewarm(t.Context(), tc.n); err != nil {
			t.Fatal(err)
		}
		if idle, all, made := c.IdleConnsCount(), c.ConnsCount(), int(dials.Load()); idle != tc.conns || all != tc.conns || made != tc.conns {
			t.Errorf("Prewarm(%d): %d idle of %d connections, %d were made; want %d", tc.n, idle, all, made, tc.conns)
		}
	}
	req := new(sluice.Request)
	req.SetRequestURI("http://x/")
	if err := c.Do(req, nil); err != nil || dials.Load() != 5 {
		t.Errorf("%v, %d connections were made", err, dials.Load())
	}
}

func TestPrewarmFails(t *testing.T) {
	noNewGoroutines(t)
	refused := errors.New("refused")
	c := &sluice.HostClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { return nil, refused }}
	if err := c.Prewarm(t.Context(), 3); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	dialing, release := make(chan struct{}, 3), make(chan struct{})
	c = &sluice.HostClient{Addr: "x:80", Dial: func(string) (net.Conn, error) {
		dialing <- struct{}{}
		<-release
		return nil, refused
	}}
	done := make(chan error, 1)
	go func() { done <- c.Prewarm(ctx, 3) }()
	for range 3 {
		<-dialing // all at the same time
	}
	cancel()
	err := <-done
	if phase := (*sluice.PhaseError)(nil); !errors.As(err, &phase) || phase.Phase != sluice.PhaseDial || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := c.Prewarm(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(release)
	if n := c.ConnsCount(); n != 0 {
		t.Errorf("%d connections are counted", n)
	}
}

// Prewarm calls the hooks of the context, or else those of the client.
func TestPrewarmTrace(t *testing.T) {
	var called []string
	named := func(name string) *sluice.ClientTrace {
		return &sluice.ClientTrace{DialStart: func(string, string) { called = append(called, name) }}
	}
	c := harness.NewClientPeer(t, answering(harness.OKAnswer)).Host()
	c.Trace = named("the client")
	for i, ctx := range []context.Context{t.Context(), sluice.WithClientTrace(t.Context(), named("the context"))} {
		if err := c.Prewarm(ctx, i+1); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(called, []string{"the client", "the context"}) {
		t.Errorf("%q", called)
	}
}
