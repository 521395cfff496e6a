// Package seeds repeats the measurements that fasthttp's README and the prefork
// packages published, with Sluice beside fasthttp and net/http, and sets the
// published figures next to them.
package seeds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// A part is what one program measures.
type part string

const (
	serverPart  part = "in memory, server"
	clientPart  part = "in memory, client"
	preforkPart part = "prefork"
)

// A Case is one of the published measurements.
type Case struct {
	Name string // with its part's: "in memory, server: Get1ReqPerConn"

	part part
	own  string // the name without the part's
}

// Cases returns all cases, in the order of the report.
func Cases() (cases []Case) {
	add := func(p part, own string) {
		cases = append(cases, Case{Name: string(p) + ": " + own, part: p, own: own})
	}
	for _, p := range publishedServers() {
		add(serverPart, p.name)
	}
	for _, p := range publishedClients() {
		add(clientPart, p.name)
	}
	for _, h := range handlers() {
		add(preforkPart, h.name)
	}
	return cases
}

// Kinds returns the servers of the prefork part; ours come first.
func Kinds() []string { return []string{peers.Epoll, peers.PerConn, peers.FastHTTP} }

// Options say what is measured, and for how long.
type Options struct {
	Cases []Case
	list  bool     // name them, and do nothing else
	Kinds []string // servers of the prefork part; those that are not in Kinds() are ignored
	CPUs  string   // values of GOMAXPROCS, in memory: "1,2,4"

	Count        int           // rounds of servers in memory
	BenchTime    time.Duration // of one of them in one round
	ClientRounds int           // of clients in memory
	Rounds       int           // of prefork, after one to warm up
	Duration     time.Duration // of one server in one of them
}

// Full returns the options of a run that takes some minutes, without cases.
func Full() Options {
	return Options{Kinds: Kinds(), CPUs: "1,2,4", Count: 4, BenchTime: 100 * time.Millisecond, ClientRounds: 4, Rounds: 4, Duration: 2 * time.Second}
}

// Check says what is wrong with the options.
func (o Options) Check() error {
	if o.Count < 1 || o.ClientRounds < 1 || o.Rounds < 1 || o.BenchTime <= 0 || o.Duration <= 0 {
		return fmt.Errorf("%d, %d and %d rounds, %v in memory: want at least one round, and some time", o.Count, o.ClientRounds, o.Rounds, o.BenchTime)
	}
	return nil
}

// of returns the names of the cases of a part.
func (o Options) of(p part) (names []string) {
	for _, c := range o.Cases {
		if c.part == p {
			names = append(names, c.own)
		}
	}
	return names
}

// Measure measures the cases and returns the report's sections. The program's
// roles must have those of package prefork.
func Measure(ctx context.Context, o Options) (sections []report.Section, err error) {
	for _, p := range []struct {
		part
		measure func(context.Context, Options) ([]report.Section, error)
	}{{serverPart, servers}, {clientPart, clients}, {preforkPart, preforks}} {
		if len(o.of(p.part)) == 0 {
			continue
		}
		more, err := p.measure(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.part, err)
		}
		sections = slices.Concat(sections, more)
	}
	return sections, nil
}
