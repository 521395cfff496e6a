package main

import (
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/wrk"
)

// A sample is one run of wrk against one server.
type sample struct {
	wrk.Result
	cpu time.Duration // of the server
}

// A wireCase is a load, what the servers are to reach under it, and what was
// measured.
type wireCase struct {
	name      string
	load      wrk.Load
	sleep     time.Duration // of the handler
	idle      int           // connections that do nothing, besides the load's
	addresses int           // of the server, see process.ServerOptions

	// targets are the most that a kind's CPU time per request, divided by the
	// baseline's, may be.
	targets map[string]float64
	// mostOfPerConn is the most that epoll's may be, divided by perconn's; 0:
	// there is no such target.
	mostOfPerConn float64

	samples map[string][]sample // by kind, round by round
	stand   *stand
}

// allCases returns the cases with the project's targets.
func allCases() []*wireCase {
	// closedAddresses are enough for rounds of 28,000 ports each (Linux's
	// default range) to come round again after a minute.
	const closedAddresses = 8
	onEpoll := func(most float64) map[string]float64 { return map[string]float64{peers.Epoll: most} }
	cases := []*wireCase{
		{name: "64 connections", load: wrk.Load{Conns: 64}, targets: map[string]float64{peers.Epoll: 0.78, peers.PerConn: 0.85}},
		{name: "512 connections", load: wrk.Load{Conns: 512}, targets: map[string]float64{peers.Epoll: 0.68, peers.PerConn: 0.80}},
		{name: "browser-size head", load: wrk.Load{Conns: 64, Browser: true}, targets: onEpoll(0.78)},
		{name: "pipeline of 16", load: wrk.Load{Conns: 64, Depth: 16}, targets: onEpoll(0.55)},
		{name: "connection per request", load: wrk.Load{Conns: 64, Close: true}, addresses: closedAddresses, targets: onEpoll(0.80)},
		{name: "10,000 idle and 64 active", load: wrk.Load{Conns: 64}, idle: 10_000},
		{name: "sleeps 1 ms, 64 connections", load: wrk.Load{Conns: 64}, sleep: time.Millisecond},
		{name: "sleeps 1 ms, 512 connections", load: wrk.Load{Conns: 512}, sleep: time.Millisecond, targets: onEpoll(0.80), mostOfPerConn: 1.1},
	}
	for _, c := range cases {
		c.samples = make(map[string][]sample)
	}
	return cases
}
