//go:build linux

package run

import (
	"math"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// TestOrders: what clients are told to do adds up to what was asked for.
func TestOrders(t *testing.T) {
	limits := plan.Limits{FilesHard: 300, FilesMax: 1 << 30, PortFirst: 1, PortLast: 60_000, TCPPages: 1 << 20, Backlog: 4096, Cores: 2, Memory: 1 << 40}
	for _, c := range []struct {
		scenario string
		options  Options
		mode     control.Mode
		active   int
		inFlight int
		rate     float64
		turns    bool
	}{
		{"6", Options{}, control.Sweep, 1_000, 1_000, 0, true},
		{"6", Options{InFlight: 10}, control.Sweep, 1_000, 10, 0, true},
		{"6", Options{InFlight: 10, AtOnce: 1}, control.Sweep, 1_000, 10, 0, true},
		{"6", Options{InFlight: 10, AtOnce: 99}, control.Sweep, 1_000, 10, 0, false},
		{"6", Options{AtOnce: 1}, control.Sweep, 1_000, 256, 0, true},
		{"6", Options{AtOnce: 3}, control.Sweep, 1_000, 768, 0, true},
		{"6", Options{InFlight: 1_000_000}, control.Sweep, 1_000, 1_000, 0, true},
		{"6", Options{Active: 7}, control.Loop, 7, 0, 0, false},
		{"6", Options{Active: 3}, control.Loop, 3, 0, 0, false},
		{"6", Options{Active: 5_000}, control.Loop, 1_000, 0, 0, false},
		{"6", Options{Rate: 999}, control.Rate, 1_000, 0, 999, false},
		{"6", Options{Rate: 999, Active: 4}, control.Rate, 4, 0, 999, false},
		{"1", Options{}, control.Rate, 1_000, 0, 1_000, false},
		{"1", Options{Rate: 5}, control.Rate, 1_000, 0, 5, false},
	} {
		found, err := scenario.Find(c.scenario)
		if err != nil {
			t.Fatal(err)
		}
		found.Conns = 1_000
		c.options.Scenario, c.options.Duration = found, time.Second
		s := &session{Options: &c.options, plan: c.options.planWithin(limits, 18_000), result: &result.Result{}}
		orders := s.orders()
		if len(orders) != 5 {
			t.Fatalf("%d clients", len(orders))
		}
		active, inFlight, rate := 0, 0, 0.0
		for i, o := range orders {
			if o.Mode != c.mode || o.Duration != time.Second || o.Active > s.plan.Clients[i].Conns {
				t.Errorf("%+v: client %d gets %+v", c, i, o)
			}
			active += o.Active
			if i < max(s.result.Load.AtOnce, 1) { // those that send at the same time
				inFlight += o.InFlight
			}
			if o.Turns != c.turns {
				t.Errorf("%+v: client %d takes turns: %t", c, i, o.Turns)
			}
			rate += o.PerSec
		}
		if active != c.active || math.Abs(rate-c.rate) > 1e-6 || c.mode == control.Sweep && inFlight != c.inFlight {
			t.Errorf("%+v: %d active, %d in flight, %v per second", c, active, inFlight, rate)
		}
		if l := s.result.Load; l.Mode != c.mode || l.Active != c.active || l.Rate != c.rate {
			t.Errorf("%+v: the report says %+v", c, l)
		}
	}
}
