package servers

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	echoed := make(chan error, 1)
	go func() { echoed <- ServeEcho(ctx, ln) }()
	result, err := (Probe{Echo: ln.Addr().String(), Duration: 20 * time.Millisecond}).run()
	if err != nil {
		t.Fatal(err)
	}
	if result.RoundTrip.Count() == 0 || result.TimerLate.Count() == 0 {
		t.Errorf("%d round trips, %d timers", result.RoundTrip.Count(), result.TimerLate.Count())
	}
	cancel()
	if err := <-echoed; err != nil {
		t.Error(err)
	}
	if _, err := (Probe{Echo: ln.Addr().String()}).run(); err == nil {
		t.Error("no error without an echo")
	}
}

func TestProbeReportsAnEchoThatStops(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := ln.Accept(); err == nil {
			c.Close()
		}
	}()
	if _, err := (Probe{Echo: ln.Addr().String(), Duration: 10 * time.Millisecond}).run(); err == nil {
		t.Error("no error")
	}
}
