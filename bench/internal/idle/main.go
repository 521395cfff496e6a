// Command idle compares what an idle keep-alive connection costs a server in
// memory. Run it in the bench module, on Linux:
//
//	go -C bench run ./idle [-conns 15000] [-tls]
//
// Every server runs in a process of its own. Other processes open the
// connections, send two requests on each and hold it. What the server's heap
// and stacks grew by (RssAnon) is divided by the connections, as it is then and
// after a garbage collection.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/client"
	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
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

func main() {
	process.Main(client.Roles())
	command.Main("idle", parseFlags, run)
}

// options are the command's flags.
type options struct {
	conns int
	tls   bool
	kinds []string

	markdown, commandLine string
}

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("idle", "Command idle measures what idle keep-alive connections cost a server in memory.")
	flags.IntVar(&o.conns, "conns", targetConns, "connections to hold")
	flags.BoolVar(&o.tls, "tls", false, "over TLS 1.3")
	servers := flags.String("servers", strings.Join(allKinds[:], ","), "servers to compare")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if err := process.CheckConnections(o.conns); err != nil {
		return o, err
	}
	o.kinds, err = peers.ParseKinds(*servers, allKinds[:])
	return o, err
}

func run(ctx context.Context, o options) error {
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
			return fmt.Errorf("%s: %w", kind, err)
		}
		section.Rows = append(section.Rows, []string{
			kind, strconv.FormatInt(f.perConn(f.held), 10), strconv.FormatInt(f.perConn(f.settled), 10), f.verdict(kind, o.tls),
			fmt.Sprintf("%.1f", float64(f.before)/(1<<20)), fmt.Sprintf("%.2f", float64(f.goroutines)/float64(f.conns)),
		})
	}
	command.Progress("")
	return report.Document{Command: o.commandLine, Sections: []report.Section{section}}.Publish(os.Stdout, o.markdown)
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
	server, err := process.StartServer(ctx, process.ServerOptions{
		Options: process.Options{CPU: process.AnyCPU}, Kind: kind, Peer: peers.Options{TLS: tls},
	})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	// What the first connection makes the server allocate is not per
	// connection.
	first, err := client.Hold(ctx, client.HoldConfig{Addr: server.Addr, Conns: 1, TLS: tls})
	if err != nil {
		return f, err
	}
	if err := errors.Join(process.StopAll(first), server.Settle()); err != nil {
		return f, err
	}
	if f.before, err = steadyMemory(ctx, server); err != nil {
		return f, err
	}
	goroutines, err := server.Goroutines()
	if err != nil {
		return f, err
	}

	clients, err := client.Hold(ctx, client.HoldConfig{Addr: server.Addr, Conns: conns, TLS: tls})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, process.StopAll(clients)) }()
	if f.held, err = steadyMemory(ctx, server); err != nil {
		return f, err
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
func steadyMemory(ctx context.Context, server *process.Server) (int64, error) {
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
