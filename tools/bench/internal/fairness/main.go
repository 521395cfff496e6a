// Package fairness measures what a busy server leaves to the rest of its
// process: a goroutine's round trips on another socket, which stand for a
// database client, and a timer. Run it in the bench module, on Linux with
// taskset and two CPUs:
//
//	go -C tools/bench run . fairness [--conns 256] [--rounds 3] [--duration 3s]
//
// Every server is a process pinned to CPU 0 with GOMAXPROCS=1; the load and the echo
// that answers the round trips are pinned to CPU 1. The servers take turns in
// random order in every round.
package fairness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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

// The CPUs of servers, and of the load and the echo.
const (
	serverCPU = 0
	clientCPU = 1
)

// allKinds are the servers that can be compared.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.NetHTTP}

// options are the command's flags.
type options struct {
	conns, rounds int
	duration      time.Duration
	kinds         []string
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("fairness", "Measure how long others in a busy server's process wait", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.conns, "conns", 256, "busy connections")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "time of one server in one round; at least two seconds")
	servers := flags.String("servers", strings.Join(allKinds[:3], ","), "servers to compare; "+peers.NetHTTP+" is one too")
	return func() (_ options, err error) {
		if o.conns < 1 || o.rounds < 1 || o.duration < 2*time.Second {
			return o, fmt.Errorf("--conns %d --rounds %d --duration %v: want at least one connection and one round of two seconds", o.conns, o.rounds, o.duration)
		}
		o.kinds, err = peers.ParseKinds(*servers, allKinds[:])
		return o, err
	}
}

// Roles has what the subcommand's processes do.
func Roles() map[string]process.Role {
	all := servers.Roles()
	all[echoRole] = echo
	return all
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
	go func() { ended <- servers.ServeEcho(ctx, ln) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	return errors.Join(err, <-ended)
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	generator, err := load.Start(ctx, process.Options{CPU: clientCPU})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	// The echo goes before the load on their CPU: the wait to be measured is the
	// server's.
	echo, err := process.Start(ctx, process.Options{CPU: clientCPU, Urgent: true}, echoRole, nil)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, echo.Stop()) }()
	m := &measurement{options: o, generator: generator}
	if m.echo, err = echo.Line(); err != nil {
		return d, err
	}
	for _, kind := range o.kinds {
		server, startErr := servers.Start(ctx, servers.Options{Kind: kind, Options: process.Options{CPU: serverCPU, Procs: 1}})
		if startErr != nil {
			return d, startErr
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		m.servers = append(m.servers, server)
	}
	if err := m.rounds(ctx); err != nil {
		return d, err
	}
	return document(o, m.samples, m.unloaded), nil
}

// A measurement is under way.
type measurement struct {
	options
	generator *load.Generator
	echo      string            // address
	servers   []*servers.Server // in the order of kinds
	unloaded  *servers.ProbeResult
	samples   []sample
}

// A sample is one server's turn in one round.
type sample struct {
	kind string
	load load.Result
	rest *servers.ProbeResult
}

func (m *measurement) rounds(ctx context.Context) (err error) {
	command.Progress("without load")
	if m.unloaded, err = m.servers[0].Probe(servers.Probe{Echo: m.echo, Duration: time.Second}); err != nil {
		return err
	}
	samples, err := command.Rounds("load", m.options.rounds, m.kinds, func(i int, warmsUp bool) (sample, error) {
		return m.turn(ctx, m.servers[i], warmsUp)
	})
	for _, kind := range m.kinds {
		for _, s := range samples[kind] {
			s.kind = kind
			m.samples = append(m.samples, s)
		}
	}
	return err
}

// turn puts load on a server and probes it meanwhile. The probe begins later
// than the load, and ends earlier.
func (m *measurement) turn(ctx context.Context, server *servers.Server, warmsUp bool) (s sample, err error) {
	const margin = 300 * time.Millisecond
	duration := m.duration
	if warmsUp {
		duration = time.Second
	}
	loaded := make(chan error, 1)
	go func() {
		var err error
		s.load, err = m.generator.Put(load.Load{Addr: server.Addr, Request: load.Get(peers.Target, ""), Conns: m.conns, Duration: duration})
		loaded <- err
	}()
	select {
	case <-time.After(margin):
	case <-ctx.Done():
	}
	rest, err := server.Probe(servers.Probe{Echo: m.echo, Duration: duration - 2*margin})
	err = errors.Join(err, <-loaded)
	s.rest = rest
	return s, err
}
