// Package h2 compares servers of HTTP/2 over TCP by their CPU time per request. Run it
// in the bench module, on Linux with taskset, two CPUs and h2load (Debian: package
// nghttp2-client):
//
//	go -C tools/bench run . h2 [--rounds N] [--requests N] [--tls] [--case REGEXP] [--servers LIST] [--before PROGRAM]
//
// Every server is a process pinned to CPU 0, h2load is pinned to CPU 1. All servers of
// a case are alive at once, and take turns in random order in every round; ratios are
// medians of the rounds' ratios.
package h2

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of servers and of the client.
const (
	serverCPU = 0
	clientCPU = 1
)

// Kinds of servers that are programs, and Sluice's HTTP/1.1 with the same load.
const (
	nginxKind = "nginx"
	h2o       = "h2o"
	nghttpd   = "nghttpd"
	ownHTTP   = "epoll HTTP/1.1"
	before    = "before" // epoll in the program of --before
)

var allKinds = []string{peers.Epoll, peers.PerConn, ownHTTP, peers.NetHTTP, nginxKind, h2o, nghttpd}

// baseline is what the others are divided by.
const baseline = peers.Epoll

// A loadCase is a load that h2load makes.
type loadCase struct {
	name           string
	conns, streams int
	peer           peers.Options
	targets        int // for how many a client asks in turn
	each           int // requests on each connection; 0: as many as options say, and leastEach
}

// leastEach is how many requests a connection has at least, so that its beginning and its end
// are a small part of what is measured.
const leastEach = 200

// requests returns how many requests a server gets in a round, where options say wanted.
func (c *loadCase) requests(wanted int) int {
	if c.each > 0 {
		return c.each * c.conns
	}
	if c.peer.Answer == peers.AnswerLarge {
		wanted /= 10
	}
	return max(wanted, leastEach*c.conns)
}

var allCases = []loadCase{
	{"1 connection × 100 streams", 1, 100, peers.Options{}, 1, 0},
	{"64 × 1", 64, 1, peers.Options{}, 1, 0},
	{"64 × 32", 64, 32, peers.Options{}, 1, 0},
	{"64 × 32, 16 targets in turn", 64, 32, peers.Options{}, 16, 0},
	{"64 × 10", 64, 10, peers.Options{}, 1, 0},
	{"512 × 10", 512, 10, peers.Options{}, 1, 0},
	{"512 × 10, 20 requests on each", 512, 10, peers.Options{}, 1, 20},
	{"POST of 1 KB, 64 × 10", 64, 10, peers.Options{BodySize: 1 << 10}, 1, 0},
	{"100 KB, 16 × 10", 16, 10, peers.Options{Answer: peers.AnswerLarge}, 1, 0},
	{"JSON, 64 × 10", 64, 10, peers.Options{Answer: peers.AnswerJSON}, 1, 0},
}

// options are the command's flags.
type options struct {
	rounds, requests int
	tls              bool
	before           string // another build of this program; "": none
	kinds            []string
	cases            []loadCase
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("h2", "Compare servers of HTTP/2 over TCP", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.rounds, "rounds", 5, "rounds, after one to warm up")
	flags.IntVar(&o.requests, "requests", 10_000, "requests of a server in a round; a tenth where answers are large, and at least 200 on each connection")
	flags.BoolVar(&o.tls, "tls", false, "over TLS 1.3 instead of prior knowledge")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run")
	servers := flags.String("servers", strings.Join(allKinds, ","), "servers to compare; "+baseline+" always is")
	flags.StringVar(&o.before, "before", "", "a `program` bench of another commit, in which epoll is measured, too, with the same handlers")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.requests < 1000 {
			return o, fmt.Errorf("--rounds %d --requests %d: want at least one round of 1000", o.rounds, o.requests)
		}
		if o.cases, err = command.Choose("case", *pattern, allCases, func(c loadCase) string { return c.name }); err != nil {
			return o, err
		}
		for i := range o.cases {
			o.cases[i].peer.TLS, o.cases[i].peer.HTTP2 = o.tls, true
		}
		o.kinds, err = peers.ParseKinds(baseline+","+*servers, allKinds)
		if o.before != "" {
			o.kinds = append(o.kinds, before)
		}
		return o, err
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset", "h2load"); err != nil {
		return d, err
	}
	s := report.Section{
		Title: "CPU µs per request, medians of the rounds",
		Head:  []string{"load", "server", "CPU µs/req", "CPU ÷ " + baseline, "failures"},
		Notes: []string{fmt.Sprintf("%d rounds of %d requests for each server (a tenth for 100 KB; at least %d on each connection, unless the load says another number), in random order, after one to warm up; TLS: %v. "+
			"Sluice and net/http run a handler that reads the path, a header and an argument; the programs serve files of the same size, nginx a constant. "+
			"h2load is one thread. In brackets the lowest and the highest round's ratio; gaps under 15 %% are ties. A dash: the server cannot do this.", o.rounds, o.requests, leastEach, o.tls)},
	}
	for _, c := range o.cases {
		samples, err := measure(ctx, o, c)
		if err != nil {
			return d, fmt.Errorf("%s: %w", c.name, err)
		}
		for _, kind := range o.kinds {
			row := []string{c.name, kind, "-", "-", "-"}
			if cpu, failures := columnsOf(samples[kind]); cpu != nil {
				base, _ := columnsOf(samples[baseline])
				row = []string{c.name, kind, fmt.Sprintf("%.2f", report.Median(cpu)), report.Ratio(report.Ratios(cpu, base)), fmt.Sprint(failures)}
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return report.Document{Title: "HTTP/2 over the wire", Sections: []report.Section{s}}, nil
}
