// Package seeds repeats the measurements that fasthttp's README and the prefork
// packages published, with Sluice beside fasthttp and net/http, and sets the
// published figures next to them.
package seeds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/report"
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
	Name    string // with its part's: "in memory, server: Get1ReqPerConn"
	IsQuick bool   // is one of those that a short run has

	part part
	own  string // the name without the part's
}

// Cases returns all cases, in the order of the report.
func Cases() (cases []Case) {
	add := func(p part, own string, quick bool) {
		cases = append(cases, Case{Name: string(p) + ": " + own, IsQuick: quick, part: p, own: own})
	}
	for _, p := range publishedServers() {
		add(serverPart, p.name, p.quick)
	}
	for _, p := range publishedClients() {
		add(clientPart, p.name, p.quick)
	}
	for _, h := range handlers() {
		add(preforkPart, h.name, h.sleep == 0)
	}
	return cases
}

// Kinds returns the servers of the prefork part; ours come first.
func Kinds() []string { return []string{peers.Epoll, peers.PerConn, peers.FastHTTP} }

// Options say what is measured, and for how long.
type Options struct {
	Cases []Case
	Kinds []string // servers of the prefork part; those that are not in Kinds() are ignored
	CPUs  string   // values of GOMAXPROCS, in memory: "1,2,4"

	Count        int           // rounds of servers in memory
	BenchTime    time.Duration // of one of them in one round
	ClientRounds int           // of clients in memory
	Rounds       int           // of prefork, after one to warm up
	Duration     time.Duration // of one server in one of them; whole seconds
}

// Quick returns the options of a run that takes less than a minute, without
// cases.
func Quick() Options {
	return Options{Kinds: Kinds(), CPUs: "1,2,4", Count: 1, BenchTime: 50 * time.Millisecond, ClientRounds: 3, Rounds: 1, Duration: time.Second}
}

// Full returns the options of a run that takes some minutes, without cases.
func Full() Options {
	return Options{Kinds: Kinds(), CPUs: "1,2,4", Count: 4, BenchTime: 100 * time.Millisecond, ClientRounds: 21, Rounds: 4, Duration: 2 * time.Second}
}

// Check says what is wrong with the options.
func (o Options) Check() error {
	if o.Count < 1 || o.ClientRounds < 1 || o.Rounds < 1 || o.BenchTime <= 0 {
		return fmt.Errorf("%d, %d and %d rounds, %v in memory: want at least one round, and some time", o.Count, o.ClientRounds, o.Rounds, o.BenchTime)
	}
	if o.Duration < time.Second || o.Duration%time.Second != 0 {
		return fmt.Errorf("%v of wrk: want whole seconds", o.Duration)
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
// roles must have those of package workers.
func Measure(ctx context.Context, o Options) (sections []report.Section, err error) {
	folder, err := os.MkdirTemp("", "seeds")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for _, p := range []struct {
		part
		measure func(context.Context, Options, string) ([]report.Section, error)
	}{{serverPart, servers}, {clientPart, clients}, {preforkPart, preforks}} {
		if len(o.of(p.part)) == 0 {
			continue
		}
		more, err := p.measure(ctx, o, folder)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.part, err)
		}
		sections = slices.Concat(sections, more)
	}
	return sections, nil
}
