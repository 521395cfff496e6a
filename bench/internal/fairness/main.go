// Command fairness measures what a busy server leaves to the rest of its
// process: a goroutine's round trips on another socket, which stand for a
// database client, and a timer. Run it in the bench module, on Linux with wrk,
// taskset and two CPUs:
//
//	go -C bench run ./fairness [-conns 256] [-rounds 3] [-duration 3s]
//
// Every server is a process pinned to CPU 0 with GOMAXPROCS=1; wrk and the echo
// that answers the round trips are pinned to CPU 1. The servers take turns in
// random order in every round.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/probe"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/wrk"
)

// The CPUs of servers, and of wrk and the echo.
const (
	serverCPU = 0
	clientCPU = 1
)

// allKinds are the servers that can be compared.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.NetHTTP}

func main() {
	process.Main(map[string]process.Role{echoRole: echo})
	command.Main("fairness", parseFlags, run)
}

// options are the command's flags.
type options struct {
	conns, rounds int
	duration      time.Duration
	kinds         []string

	markdown, commandLine string
}

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("fairness", "Command fairness measures how long others in a busy server's process wait.")
	flags.IntVar(&o.conns, "conns", 256, "busy connections")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "time of one server in one round; whole seconds, at least two")
	servers := flags.String("servers", strings.Join(allKinds[:3], ","), "servers to compare; "+peers.NetHTTP+" is one too")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if o.conns < 1 || o.rounds < 1 || o.duration < 2*time.Second || o.duration%time.Second != 0 {
		return o, fmt.Errorf("-conns %d -rounds %d -duration %v: want at least one connection and one round of two seconds", o.conns, o.rounds, o.duration)
	}
	o.kinds, err = peers.ParseKinds(*servers, allKinds[:])
	return o, err
}

const echoRole = "echo"

// echo is the process at the other end of the round trips. It says its address.
func echo([]byte) error {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- probe.Echo(ctx, ln) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	return errors.Join(err, <-ended)
}

func run(ctx context.Context, o options) (err error) {
	if err := command.Require("wrk", "taskset"); err != nil {
		return err
	}
	runner, err := wrk.NewRunner(clientCPU)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	// The echo goes before wrk on their CPU: the wait to be measured is the
	// server's.
	echo, err := process.Start(ctx, process.Options{CPU: clientCPU, Urgent: true}, echoRole, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, echo.Stop()) }()
	m := &measurement{options: o, runner: runner}
	if m.echo, err = echo.Line(); err != nil {
		return err
	}
	for _, kind := range o.kinds {
		server, startErr := process.StartServer(ctx, process.ServerOptions{Kind: kind, Options: process.Options{CPU: serverCPU, Procs: 1}})
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		m.servers = append(m.servers, server)
	}
	if err := m.rounds(ctx); err != nil {
		return err
	}
	command.Progress("")
	return document(o, m.samples, m.unloaded).Publish(os.Stdout, o.markdown)
}

// A measurement is under way.
type measurement struct {
	options
	runner   *wrk.Runner
	echo     string            // address
	servers  []*process.Server // in the order of kinds
	unloaded *probe.Result
	samples  []sample
}

// A sample is one server's turn in one round.
type sample struct {
	kind string
	load wrk.Result
	rest *probe.Result
}

func (m *measurement) rounds(ctx context.Context) (err error) {
	command.Progress("without load")
	if m.unloaded, err = m.servers[0].Probe(probe.Config{Echo: m.echo, Duration: time.Second}); err != nil {
		return err
	}
	for round := range m.options.rounds + 1 { // round 0 warms up
		for _, i := range rand.Perm(len(m.kinds)) {
			command.Progress("round %d/%d, %s", round, m.options.rounds, m.kinds[i])
			s, err := m.turn(ctx, m.servers[i], round)
			if err != nil {
				return fmt.Errorf("%s: %w", m.kinds[i], err)
			}
			s.kind = m.kinds[i]
			if round > 0 {
				m.samples = append(m.samples, s)
			}
		}
	}
	return nil
}

// turn puts load on a server and probes it meanwhile. The probe begins later
// than wrk, which opens its connections first, and ends earlier.
func (m *measurement) turn(ctx context.Context, server *process.Server, round int) (s sample, err error) {
	const margin = 300 * time.Millisecond
	duration := m.duration
	if round == 0 {
		duration = time.Second
	}
	loaded := make(chan error, 1)
	go func() {
		var err error
		s.load, err = m.runner.Run(ctx, wrk.Load{Conns: m.conns}, server.Addr, duration)
		loaded <- err
	}()
	select {
	case <-time.After(margin):
	case <-ctx.Done():
	}
	rest, err := server.Probe(probe.Config{Echo: m.echo, Duration: duration - 2*margin})
	err = errors.Join(err, <-loaded)
	s.rest = rest
	return s, err
}
