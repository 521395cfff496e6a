package sluice

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// TestControlOfAnIdleServer: without an engine there is nothing to hand over and to probe.
func TestControlOfAnIdleServer(t *testing.T) {
	s := &Server{}
	if n := s.Control().HandOver(-1, nil); n != 0 {
		t.Errorf("%d connections were handed over", n)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if first, second := s.Control().Probe(context.Background()), s.Control().Probe(ended); first != nil || second != context.Canceled {
		t.Errorf("Probe: %v, %v", first, second)
	}
	if again := s.Control(); again != s.Control() {
		t.Error("there are two ServerControls")
	}
	other := errors.New("x")
	if closedError(engine.ErrShutdown) != ErrServerClosed || closedError(other) != other || closedError(nil) != nil {
		t.Error("closedError")
	}
	var zero Parcel
	if zero.Kind() != 0 || (Parcel{State: []byte{1, 2}}).Kind() != 1<<44 || stateKind("talk") != 1<<47 { // other processes compare them
		t.Errorf("kinds of Parcels: %x, %x", (Parcel{State: []byte{1, 2}}).Kind(), stateKind("talk"))
	}
	if stateKind(kindOfTLS(1)) == stateKind(kindOfTLS(2)) || stateKind("\x01") == stateKind("\x02") {
		t.Error("two versions are one kind")
	}
}

// TestMeterStatusClasses: a status out of all classes counts in the nearest.
func TestMeterStatusClasses(t *testing.T) {
	m := &Meter{}
	for i := range m.Status {
		m.Status[i] = new(atomic.Uint64)
	}
	for status, want := range map[int]int{99: 0, 101: 0, 200: 1, 599: 4, 999: 4} {
		before, ctx := m.Status[want].Load(), &RequestCtx{}
		ctx.SetStatusCode(status)
		m.countStatus(ctx)
		if m.Status[want].Load() != before+1 {
			t.Errorf("status %d does not count in class %d", status, want+1)
		}
	}
}
