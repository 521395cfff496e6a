// Package websockets compares servers of WebSocket by their CPU time per message, and by
// the memory of idle connections. Run it in the bench module, on Linux with taskset and two
// CPUs:
//
//	go -C tools/bench run . ws [--rounds N] [--duration D] [--conns N] [--case REGEXP] [--servers LIST]
//
// Every server is a process pinned to CPU 0 with one P; the client, the event loop of
// "sluice bench", is pinned to CPU 1. All servers of a case are alive at once, and take
// turns in random order in every round; ratios are medians of the rounds' ratios.
package websockets

import (
	"context"
	"fmt"
	"slices"
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

// allKinds are the servers that echo. floor does no more; bare is only in broadcasts.
var allKinds = []string{epoll, perConn, accept, gws, gorilla, fastHTTP, coder, gobwas, floor}

// What the others are divided by.
const (
	echoBaseline      = gws
	broadcastBaseline = bare
)

// An echoCase is messages that each connection sends when the last was answered.
type echoCase struct {
	name        string
	conns, size int
}

var echoCases = []echoCase{
	{"echo of 32 B, 64 connections", 64, 32},
	{"echo of 1 KiB, 64 connections", 64, 1 << 10},
	{"echo of 64 KiB, 64 connections", 64, 64 << 10},
}

const (
	broadcastName = "broadcast of 32 B"
	broadcastSize = 32
	perTurn       = 5 // broadcasts of a server in a round
)

// options are the command's flags.
type options struct {
	rounds    int
	duration  time.Duration
	messages  int64  // of a turn of echoes; 0: duration ends it
	before    string // another build of this program; "": none
	conns     int    // of broadcasts, and idle
	untilIdle time.Duration
	kinds     []string
	others    map[string]string // commands of --program by their kinds
	cases     []echoCase
	broadcast bool
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("ws", "Compare servers of WebSocket", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	o := options{untilIdle: untilIdle}
	flags.IntVar(&o.rounds, "rounds", 7, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", time.Second, "how long a server has messages to answer in a round")
	flags.IntVar(&o.conns, "conns", 10_000, "connections of a server that are idle, and get broadcasts")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run")
	flags.StringVar(&o.before, "before", "", "a `program` bench of another commit, in which epoll is measured, too")
	programs := flags.StringArray("program", nil, "a further server that echoes, as `NAME=COMMAND`: a program with its arguments, in which {addr} or {port} is where it is to listen")
	servers := flags.String("servers", strings.Join(allKinds, ","), "servers to compare; "+echoBaseline+" always is")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.duration <= 0 {
			return o, fmt.Errorf("--rounds %d --duration %v: want at least one round", o.rounds, o.duration)
		}
		if err := process.CheckConnections(o.conns); err != nil {
			return o, err
		}
		chosen, err := command.Choose("case", *pattern, append(slices.Clone(echoCases), echoCase{name: broadcastName}), func(c echoCase) string { return c.name })
		if err != nil {
			return o, err
		}
		if o.cases = chosen; chosen[len(chosen)-1].name == broadcastName {
			o.broadcast, o.cases = true, chosen[:len(chosen)-1]
		}
		if o.kinds, err = peers.ParseKinds(*servers+","+echoBaseline, allKinds); err != nil {
			return o, err
		}
		if o.before != "" {
			o.kinds = append(o.kinds, before)
		}
		names, commands, err := command.ParsePrograms(*programs, append([]string{before, bare}, allKinds...))
		o.kinds, o.others = append(o.kinds, names...), commands
		return o, err
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	d.Title = "WebSocket over the wire"
	if len(o.cases) > 0 {
		s, err := runEchoes(ctx, o)
		if err != nil {
			return d, err
		}
		d.Sections = append(d.Sections, s)
	}
	if o.broadcast {
		sections, err := runBroadcast(ctx, o)
		if err != nil {
			return d, fmt.Errorf("%s: %w", broadcastName, err)
		}
		d.Sections = append(d.Sections, sections...)
	}
	return d, nil
}

func runEchoes(ctx context.Context, o options) (report.Section, error) {
	s := report.Section{
		Title: "CPU µs of the server per message, medians of the rounds",
		Head:  []string{"load", "server", "CPU µs/message", "CPU ÷ " + echoBaseline, "CPU ÷ before", "failures"},
		Notes: []string{machineNote(), fmt.Sprintf("%d rounds of %v for each server, in random order, after one to warm up. A message is text; the handler checks that it is UTF-8 "+
			"(where the library does not), and makes the answer from it. epoll and perconn are Sluice with callbacks and these engines, accept is Endpoint.Accept on epoll. floor is epoll_wait(2), read(2) and write(2) with no check. "+
			"In brackets the lowest and the highest round's ratio; gaps under 15 %% are ties.", o.rounds, o.duration)},
	}
	for _, c := range o.cases {
		all, err := measureEcho(ctx, o, c)
		if err != nil {
			return s, fmt.Errorf("%s: %w", c.name, err)
		}
		for _, kind := range o.kinds {
			got := all[kind]
			s.Rows = append(s.Rows, []string{c.name, kind, fmt.Sprintf("%.2f", report.Median(got.cpu)),
				report.Ratio(report.Ratios(got.cpu, all[echoBaseline].cpu)), besideBefore(all, kind), fmt.Sprint(got.failures)})
		}
	}
	return s, nil
}

// besideBefore compares the CPU time of a kind with that of the program of --before.
func besideBefore(all map[string]*samples, kind string) string {
	if all[before] == nil {
		return "-"
	}
	return report.Ratio(report.Ratios(all[kind].cpu, all[before].cpu))
}

// machineNote says where the figures of a table come from, and of which versions they are.
func machineNote() string {
	return fmt.Sprintf("Machine: %s. A server has one of the CPUs and the client another. gws is %s.", report.Machine(), command.ModuleVersion("github.com/lxzan/gws"))
}

// broadcasters returns the kinds that broadcast: neither the floor nor programs of others.
func (o options) broadcasters() []string {
	kinds := slices.DeleteFunc(slices.Clone(o.kinds), func(kind string) bool { return kind == floor || o.others[kind] != "" })
	return append(kinds, broadcastBaseline)
}

func runBroadcast(ctx context.Context, o options) ([]report.Section, error) {
	o.kinds = o.broadcasters()
	all, err := measureBroadcast(ctx, o)
	if err != nil {
		return nil, err
	}
	broadcasts := report.Section{
		Title: fmt.Sprintf("CPU µs of the server per member, %s to %d", broadcastName, o.conns),
		Head:  []string{"server", "CPU µs/member", "CPU ÷ " + broadcastBaseline, "CPU ÷ before", "ms first to last", "÷ " + broadcastBaseline},
		Notes: []string{machineNote(), fmt.Sprintf("%d rounds of %d broadcasts for each server, in random order, after one to warm up. The next broadcast begins when all members have the last. "+
			"epoll, perconn and accept are a room of websocket/room. gws, gorilla and fasthttp send what is prepared once, gobwas a frame. %s is a loop of the system call over the sockets.", o.rounds, perTurn, bare)},
	}
	idle := report.Section{
		Title: fmt.Sprintf("Anonymous memory of %d idle connections", o.conns),
		Head:  []string{"server", "bytes/connection after GC", "goroutines/connection"},
		Notes: []string{machineNote(), fmt.Sprintf("%v after one message each; all connections are members of the room, or of the set that a program has for broadcasts.", untilIdle)},
	}
	for _, kind := range o.kinds {
		got := all[kind]
		broadcasts.Rows = append(broadcasts.Rows, []string{kind, fmt.Sprintf("%.2f", report.Median(got.cpu)),
			report.Ratio(report.Ratios(got.cpu, all[broadcastBaseline].cpu)), besideBefore(all, kind), fmt.Sprintf("%.1f", report.Median(got.spans)),
			report.Ratio(report.Ratios(got.spans, all[broadcastBaseline].spans))})
		if kind != bare {
			idle.Rows = append(idle.Rows, []string{kind, fmt.Sprint(got.idleBytes), fmt.Sprintf("%.2f", got.goroutines)})
		}
	}
	return []report.Section{broadcasts, idle}, nil
}
