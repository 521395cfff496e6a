//go:build linux

// Package reference runs a program in C that holds connections and asks on them, at both
// ends, in as many processes as a plan of the lab has. It is what a server on event loops
// can reach at best on a machine.
package reference

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

//go:embed source/reference.c
var source []byte

// A peer is a process of the program.
type peer struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

// A fleet is the processes of a run.
type fleet struct {
	plan             *plan.Plan
	files            system.Files
	servers, clients []*peer
}

// Run carries out a plan for the scenario of several event loops: it connects, and sweeps
// until duration is over. The clients take turns, as in the lab.
func Run(ctx context.Context, p *plan.Plan, duration time.Duration, files system.Files) (r *result.Result, err error) {
	folder, err := os.MkdirTemp("", "reference")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program, err := process.Compile(ctx, folder, "reference", source)
	if err != nil {
		return nil, err
	}
	spawner := process.NewSpawner()
	defer spawner.Close()
	f := &fleet{plan: p, files: files}
	defer f.stop()
	if err := f.start(ctx, spawner, program); err != nil {
		return nil, err
	}
	r = &result.Result{Scenario: p.Scenario}
	r.Scenario.Name, r.Scenario.Summary = "reference", "a program in C at both ends, which waits, receives and sends"
	r.Layout = result.Layout{Servers: len(p.Servers), Clients: len(p.Clients), Addresses: len(p.Servers), Loops: 1, ClientLoops: 1}
	if err := f.connect(r); err != nil {
		return nil, err
	}
	return r, f.load(ctx, r, duration)
}

// start starts all processes, and waits for the servers to listen.
func (f *fleet) start(ctx context.Context, spawner *process.Spawner, program string) error {
	for _, s := range f.plan.Servers {
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			return err
		}
		server, err := startPeer(ctx, spawner, program, "serve", host, port)
		if err != nil {
			return err
		}
		f.servers = append(f.servers, server)
	}
	window := max(f.plan.InFlight/max(f.plan.AtOnce, 1), 1)
	for range f.plan.Clients {
		client, err := startPeer(ctx, spawner, program, "hold", fmt.Sprint(window))
		if err != nil {
			return err
		}
		f.clients = append(f.clients, client)
	}
	for _, server := range f.servers {
		if _, err := server.line(); err != nil {
			return err
		}
	}
	return nil
}

func startPeer(ctx context.Context, spawner *process.Spawner, program string, args ...string) (*peer, error) {
	p := &peer{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(output)
	return p, spawner.Start(p.cmd)
}

// line returns the next line that p prints.
func (p *peer) line() (string, error) {
	if !p.lines.Scan() {
		return "", errors.Join(fmt.Errorf("%s has ended", strings.Join(p.cmd.Args, " ")), p.lines.Err())
	}
	return p.lines.Text(), nil
}

// ask sends lines to p, and reads the numbers of its next line into answers.
func (p *peer) ask(lines string, answers ...any) error {
	if _, err := io.WriteString(p.input, lines); err != nil {
		return err
	}
	text, err := p.line()
	if err != nil {
		return err
	}
	_, err = fmt.Sscan(text, answers...)
	return err
}

// stop ends all processes.
func (f *fleet) stop() {
	for _, p := range append(f.clients, f.servers...) {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// connect has all connections made.
func (f *fleet) connect(r *result.Result) error {
	r.Memory.Before = f.memory(0)
	began := time.Now()
	made, failed := make([]int, len(f.clients)), make([]int, len(f.clients))
	err := f.each(len(f.clients), func(i int) error {
		var lines strings.Builder
		for _, t := range f.plan.Clients[i].Targets {
			host, port, err := net.SplitHostPort(t.Addr)
			if err != nil {
				return err
			}
			fmt.Fprintf(&lines, "%s %s %s %d\n", t.Source, host, port, t.Conns)
		}
		return f.clients[i].ask(lines.String()+".\n", &made[i], &failed[i])
	})
	c := &r.Connect
	c.Elapsed = time.Since(began)
	for i := range made {
		c.Made += made[i]
		c.Failed += failed[i]
	}
	c.PerSec = float64(c.Made) / c.Elapsed.Seconds()
	r.Memory.After = f.memory(c.Made)
	return err
}

// each calls do for all clients, some at a time.
func (f *fleet) each(atOnce int, do func(client int) error) error {
	errs := make([]error, len(f.clients))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(atOnce, len(f.clients)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range f.clients {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

// load sweeps until duration is over.
func (f *fleet) load(ctx context.Context, r *result.Result, duration time.Duration) error {
	l := &r.Load
	l.Mode, l.Active, l.InFlight, l.AtOnce = control.Sweep, r.Connect.Made, f.plan.InFlight, f.plan.AtOnce
	serverCPU, clientCPU, machineCPU, err := f.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	for time.Since(began) < duration || l.Sweeps == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		answers := make([]int, len(f.clients))
		if err := f.each(f.plan.AtOnce, func(i int) error { return f.clients[i].ask("sweep\n", &answers[i]) }); err != nil {
			return err
		}
		for _, n := range answers {
			l.Completed += uint64(n)
		}
		l.Sweeps++
	}
	l.Elapsed = time.Since(began)
	l.PerSec = float64(l.Completed) / l.Elapsed.Seconds()
	l.Unanswered = l.Sweeps*r.Connect.Made - int(l.Completed)
	if l.ServerCPU, l.ClientCPU, l.MachineCPU, err = f.cpu(); err != nil {
		return err
	}
	l.ServerCPU, l.ClientCPU, l.MachineCPU = l.ServerCPU-serverCPU, l.ClientCPU-clientCPU, l.MachineCPU-machineCPU
	r.Memory.Worked = f.memory(r.Connect.Made)
	return nil
}

// cpu returns the processor time that was used so far.
func (f *fleet) cpu() (servers, clients, machine time.Duration, err error) {
	sum := func(all []*peer) (sum time.Duration) {
		for _, p := range all {
			used, failure := process.CPU(p.cmd.Process.Pid)
			sum += used
			err = errors.Join(err, failure)
		}
		return sum
	}
	return sum(f.servers), sum(f.clients), f.files.CPU(), err
}

// memory returns what all processes use.
func (f *fleet) memory(connections int) result.MemorySample {
	kernel := f.files.Kernel(false)
	sample := result.MemorySample{Connections: connections, Slab: kernel.Slab, SockBuffer: kernel.SockBuffer}
	for _, kind := range []struct {
		peers []*peer
		sum   *result.ProcessMemory
	}{{f.servers, &sample.Server}, {f.clients, &sample.Client}} {
		for _, p := range kind.peers {
			pid := p.cmd.Process.Pid
			usage := f.files.Usage(pid)
			kind.sum.RSS += usage.RSS
			kind.sum.Anon += usage.Anon
			kind.sum.Proportional += f.files.Proportional(pid)
		}
	}
	return sample
}
