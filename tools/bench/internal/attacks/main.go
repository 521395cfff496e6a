// Package attacks measures what clients of HTTP/2 and TLS can make a server do that costs them
// little: how many units of an attack a server takes on one connection before it
// ends that, the CPU time for each, and how much its memory grows. Run it in the bench
// module, on Linux:
//
//	go -C tools/bench run . attacks [--units N] [--conns N] [--slow-clients N] [--attack REGEXP] [--servers LIST]
//
// Each server is a process. For each attack it is a fresh one, which first answers
// ordinary requests. Connections follow each other; what connections without an attack
// cost is subtracted. A second table has what a server holds for connections that take
// nothing of large responses, a third one what it holds for clients that do not go on with
// the handshake of TLS.
package attacks

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// options are the command's flags.
type options struct {
	units, conns int
	slowClients  int
	kinds        []string
	attacks      []attack
	holdings     []holding
	hesitations  []hesitation
}

var allKinds = []string{peers.Epoll, peers.PerConn, peers.NetHTTP}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("attacks", "Measure what attacks over HTTP/2 and TLS cost servers", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.units, "units", 20_000, "units that are sent on a connection, unless the server ends it")
	flags.IntVar(&o.conns, "conns", 20, "connections, one after the other; fewer for a server that does not end them")
	flags.IntVar(&o.slowClients, "slow-clients", 10_000, "clients at once that do not go on with the handshake of TLS")
	pattern := flags.String("attack", ".", "regular `expression` of the attacks to make")
	kinds := flags.String("servers", strings.Join(allKinds, ","), "servers to attack")
	return func() (_ options, err error) {
		if o.units < 100 || o.conns < 1 {
			return o, fmt.Errorf("--units %d --conns %d: want at least 100 units and a connection", o.units, o.conns)
		}
		if err := process.CheckConnections(o.slowClients); err != nil {
			return o, err
		}
		var noAttack, noHolding, noHesitation error
		o.attacks, noAttack = command.Choose("attack", *pattern, allAttacks, func(a attack) string { return a.name })
		o.holdings, noHolding = command.Choose("attack", *pattern, allHoldings, func(h holding) string { return h.name })
		o.hesitations, noHesitation = command.Choose("attack", *pattern, allHesitations, func(h hesitation) string { return h.name })
		if noAttack != nil && noHolding != nil && noHesitation != nil {
			return o, noAttack
		}
		o.kinds, err = peers.ParseKinds(*kinds, allKinds)
		return o, err
	}
}

const title = "Attacks over HTTP/2 and TLS"

func run(ctx context.Context, o options) (d report.Document, err error) {
	s := report.Section{
		Title: "What an attack costs",
		Head:  []string{"attack", "server", "units until the end", "CPU µs/unit", "memory, KiB"},
		Notes: []string{fmt.Sprintf("Up to %d units on each of %d connections in turn, %d at a time. A dash: the server did not end the connection. "+
			"Memory: the most that private memory grew, looked at after each connection.", o.units, o.conns, batch)},
	}
	for _, a := range o.attacks {
		for _, kind := range o.kinds {
			command.Progress("%s: %s", a.name, kind)
			got, err := o.measure(ctx, a, kind)
			if err != nil {
				return d, fmt.Errorf("%s, %s: %w", a.name, kind, err)
			}
			end := "–"
			if got.hasEnded {
				end = fmt.Sprintf("%.0f", got.units)
			}
			s.Rows = append(s.Rows, []string{a.name, kind, end, fmt.Sprintf("%.2f", got.cpu), fmt.Sprint(got.memory >> 10)})
		}
	}
	held, err := o.held(ctx)
	if err != nil {
		return report.Document{Title: title, Sections: []report.Section{s, held}}, err
	}
	slow, err := o.slow(ctx)
	return report.Document{Title: title, Sections: []report.Section{s, held, slow}}, err
}

// held makes the table of what connections hold.
func (o options) held(ctx context.Context) (report.Section, error) {
	s := report.Section{
		Title: "What a server holds",
		Head:  []string{"client", "server", "memory, KiB/connection"},
		Notes: []string{fmt.Sprintf("%d connections at once, each with %d requests for %d KiB that the client does not take. Private memory without garbage.",
			min(o.conns, mostConns), heldStreams, peers.FreshSize>>10)},
	}
	for _, h := range o.holdings {
		for _, kind := range o.kinds {
			command.Progress("%s: %s", h.name, kind)
			each, err := o.measureHeld(ctx, h, kind)
			if err != nil {
				return s, fmt.Errorf("%s, %s: %w", h.name, kind, err)
			}
			s.Rows = append(s.Rows, []string{h.name, kind, fmt.Sprint(each >> 10)})
		}
	}
	return s, nil
}
