// Package idle compares what an idle keep-alive connection costs a server in
// memory. Run it in the bench module, on Linux:
//
//	go -C tools/bench run . idle [--conns 15000] [--tls]
//
// Every server runs in a process of its own. Other processes open the
// connections, send two requests on each and hold it. What the server's heap
// and stacks grew by (RssAnon) is divided by the connections, as it is then and
// after a garbage collection.
package idle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// allKinds are the servers that can be compared.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.FastHTTPReduced, peers.NetHTTP}

// The most bytes that an idle connection may cost, by the server's kind.
var (
	plainTargets = map[string]float64{peers.Epoll: 128, peers.PerConn: 6 * 1024}
	tlsTargets   = map[string]float64{peers.Epoll: 8 * 1024}
)

// targetConns is for how many connections the targets are: with fewer,
// what a server has but once weighs more.
const targetConns = 15_000

// idleTime is how long connections are idle before the figure after GC.
const idleTime = 5 * time.Second

// options are the command's flags.
type options struct {
	conns int
	tls   bool
	kinds []string
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("idle", "Measure what idle keep-alive connections cost a server in memory", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.conns, "conns", targetConns, "connections to hold")
	flags.BoolVar(&o.tls, "tls", false, "over TLS 1.3")
	servers := flags.String("servers", strings.Join(allKinds[:], ","), "servers to compare")
	return func() (_ options, err error) {
		if err := process.CheckConnections(o.conns); err != nil {
			return o, err
		}
		o.kinds, err = peers.ParseKinds(*servers, allKinds[:])
		return o, err
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	section := report.Section{
		Title: fmt.Sprintf("Anonymous memory of %d idle connections", o.conns),
		Head:  []string{"server", "bytes/connection", "after GC", "target", "MiB before", "goroutines/connection"},
		Notes: []string{"The target is for the figure after GC."},
	}
	if o.tls {
		section.Title += " over TLS 1.3"
	}
	for _, kind := range o.kinds {
		command.Progress("%s", kind)
		f, err := measure(ctx, kind, o.conns, o.tls)
		if err != nil {
			return d, fmt.Errorf("%s: %w", kind, err)
		}
		section.Rows = append(section.Rows, []string{
			kind, strconv.FormatInt(f.perConn(f.held), 10), strconv.FormatInt(f.perConn(f.settled), 10), f.verdict(kind, o.tls),
			fmt.Sprintf("%.1f", float64(f.before)/(1<<20)), fmt.Sprintf("%.2f", float64(f.goroutines)/float64(f.conns)),
		})
	}
	return report.Document{Sections: []report.Section{section}}, nil
}

// figures are the server's bytes of anonymous memory.
type figures struct {
	conns                 int64
	before, held, settled int64
	goroutines            int // more of them than before
}

func (f figures) perConn(bytes int64) int64 { return (bytes - f.before) / f.conns }

// verdict says whether a connection costs no more than it may.
func (f figures) verdict(kind string, tls bool) string {
	targets := plainTargets
	if tls {
		targets = tlsTargets
	}
	most, ok := targets[kind]
	if !ok || f.conns < targetConns {
		return "-"
	}
	return report.Verdict(float64(f.perConn(f.settled)), most, "%.0f")
}

// measure holds connections to a server of the kind.
func measure(ctx context.Context, kind string, conns int, tls bool) (f figures, err error) {
	f.conns = int64(conns)
	server, err := servers.Start(ctx, servers.Options{
		Options: process.Options{CPU: process.AnyCPU}, Kind: kind, Peer: peers.Options{TLS: tls},
	})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	// What the first connection makes the server allocate is not per
	// connection.
	held := load.Load{Addr: server.Addr, Conns: 1, TLS: tls, Request: load.Get(peers.Target, "")}
	first, err := load.Hold(ctx, held)
	if err != nil {
		return f, err
	}
	if err := errors.Join(first.Stop(), server.Settle()); err != nil {
		return f, err
	}
	if f.before, err = steadyMemory(ctx, server); err != nil {
		return f, err
	}
	goroutines, err := server.Goroutines()
	if err != nil {
		return f, err
	}

	held.Conns = conns
	clients, err := load.Hold(ctx, held)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, clients.Stop()) }()
	if f.held, err = steadyMemory(ctx, server); err != nil {
		return f, err
	}
	select { // servers give buffers and stacks back when connections have been idle for a while
	case <-ctx.Done():
		return f, ctx.Err()
	case <-time.After(idleTime):
	}
	if err := server.Settle(); err != nil {
		return f, err
	}
	if f.settled, err = steadyMemory(ctx, server); err != nil {
		return f, err
	}
	f.goroutines, err = server.Goroutines()
	f.goroutines -= goroutines
	return f, err
}

// steadyMemory waits until the server's memory stops changing by more than 1 %
// within a second, for at most ten.
func steadyMemory(ctx context.Context, server *servers.Server) (int64, error) {
	last, err := server.AnonymousMemory()
	for range 10 {
		if err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
		previous := last
		if last, err = server.AnonymousMemory(); max(last-previous, previous-last) < last/100 {
			break
		}
	}
	return last, err
}
