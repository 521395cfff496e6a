package fairness

import (
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// mostRoundTrip is epoll's target, in ms at p99.
const mostRoundTrip = 15

// document makes the report.
func document(o options, samples []sample, unloaded *servers.ProbeResult) report.Document {
	waits := report.Section{
		Title: fmt.Sprintf("Waits of others in the server's process at %d busy connections on one P, in ms", o.conns),
		Head:  []string{"server", "round trip p50", "p99", "max", "target p99", "1 ms timer late p50", "p99", "max", "req/s", "errors"},
		Notes: []string{"All rounds together."},
	}
	waits.Rows = append(waits.Rows, row("no load", unloaded, "-", "-", "-"))
	for _, kind := range o.kinds {
		sum := new(servers.ProbeResult)
		var rates []float64
		var all load.Result
		for _, s := range of(samples, kind) {
			sum.RoundTrip.Add(&s.rest.RoundTrip)
			sum.TimerLate.Add(&s.rest.TimerLate)
			rates = append(rates, s.load.Rate())
			all.Add(s.load)
		}
		target := "-"
		if kind == peers.Epoll {
			target = report.Verdict(float64(sum.RoundTrip.Percentile(99).Microseconds())/1000, mostRoundTrip, "%.0f")
		}
		waits.Rows = append(waits.Rows, row(kind, sum, target, fmt.Sprintf("%.0f", report.Median(rates)), all.Errors()))
	}
	return report.Document{Sections: []report.Section{waits, ratios(o, samples)}}
}

func row(name string, r *servers.ProbeResult, target, rate, failures string) []string {
	cells := []string{name}
	for _, h := range []*latency.Histogram{&r.RoundTrip, &r.TimerLate} {
		for _, percent := range []float64{50, 99, 100} {
			cells = append(cells, latency.Milliseconds(h.Percentile(percent)))
		}
		if h == &r.RoundTrip {
			cells = append(cells, target)
		}
	}
	return append(cells, rate, failures)
}

// ratios compares the servers with perconn, round by round.
func ratios(o options, samples []sample) report.Section {
	section := report.Section{
		Title: "p99 ÷ perconn's",
		Head:  []string{"server", "round trip", "target", "1 ms timer late"},
		Notes: []string{"Medians of the rounds' ratios, in brackets the lowest and the highest round's.", "tie: the median is above 1, but not every round."},
	}
	baseTrips, baseTimers := tails(of(samples, peers.PerConn))
	for _, kind := range o.kinds {
		trips, timers := tails(of(samples, kind))
		quotients := report.Ratios(trips, baseTrips)
		if kind == peers.PerConn || len(quotients) == 0 {
			continue
		}
		target := "-"
		if kind == peers.Epoll {
			target = report.NotAbove(quotients)
		}
		section.Rows = append(section.Rows, []string{kind, report.Ratio(quotients), target, report.Ratio(report.Ratios(timers, baseTimers))})
	}
	return section
}

// of returns a kind's samples, in the order of the rounds.
func of(samples []sample, kind string) (own []sample) {
	for _, s := range samples {
		if s.kind == kind {
			own = append(own, s)
		}
	}
	return own
}

// tails returns the rounds' p99.
func tails(samples []sample) (trips, timers []float64) {
	inMilliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, s := range samples {
		trips = append(trips, inMilliseconds(s.rest.RoundTrip.Percentile(99)))
		timers = append(timers, inMilliseconds(s.rest.TimerLate.Percentile(99)))
	}
	return trips, timers
}
