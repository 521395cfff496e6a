package h3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A sample is one server's turn in one round.
type sample struct {
	cpu, packets, allocations float64 // per request; CPU in µs
	failures                  int
	waits                     [3]float64 // of loadResult, in ms
}

func (s sample) cpuOf() float64         { return s.cpu }
func (s sample) packetsOf() float64     { return s.packets }
func (s sample) allocationsOf() float64 { return s.allocations }

// column returns a value of each sample.
func column(samples []sample, of func(sample) float64) (values []float64) {
	for _, s := range samples {
		values = append(values, of(s))
	}
	return values
}

func failuresOf(samples []sample) (n int) {
	for _, s := range samples {
		n += s.failures
	}
	return n
}

// A contender is a server that is alive, and its client.
type contender struct {
	addr        string
	cpu         func() (time.Duration, error)
	allocations func() (uint64, error) // nil: it does not count them
	stop        func() error
	client      *process.Server
}

// ask has the client carry out a command.
func (c *contender) ask(name string, l loadSpec, answer any) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return c.client.Ask(name+" "+string(text), answer)
}

// errAbsent: this server is not installed, or cannot do the case.
var errAbsent = errors.New("not here")

// start starts a server and a client for it.
func start(ctx context.Context, o options, kind string, load loadCase, folder string) (c *contender, err error) {
	if kind == nginxKind || kind == caddyKind {
		c, err = startProgram(ctx, kind, o.programs[kind], load, folder)
	} else {
		c, err = startServer(ctx, kind, load)
	}
	if err != nil {
		return nil, err
	}
	c.client, err = process.StartService(ctx, process.Options{CPU: load.cpu(clientCPU)}, clientRole, nil)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	stop := c.stop
	c.stop = func() error { return errors.Join(c.client.Stop(), stop()) }
	return c, nil
}

func startServer(ctx context.Context, kind string, load loadCase) (*contender, error) {
	o := process.Options{CPU: load.cpu(serverCPU), Procs: 1}
	if load.isSpread {
		o.Procs = 0
	}
	server, err := process.StartService(ctx, o, serverRole, serverConfig{kind, load.peer})
	if err != nil {
		return nil, err
	}
	return &contender{
		addr: server.Addr, cpu: server.TreeCPU, stop: server.Stop,
		allocations: func() (n uint64, err error) { return n, server.Ask(allocationsCommand, &n) },
	}, nil
}

// rounds starts the servers, and has each take a turn in each round.
func rounds(ctx context.Context, o options, load loadCase, prepare, turn func(c *contender) (sample, error)) (all map[string][]sample, err error) {
	folder, err := os.MkdirTemp("", "h3")
	if err != nil {
		return nil, err
	}
	var alive []*contender
	var names []string
	defer func() {
		for _, server := range alive {
			err = errors.Join(err, server.stop())
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}()
	for _, kind := range o.kinds {
		server, err := start(ctx, o, kind, load, folder)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		alive, names = append(alive, server), append(names, kind)
		if _, err := prepare(server); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return command.Rounds(load.name, o.rounds, names, func(i int, _ bool) (sample, error) { return turn(alive[i]) })
}

// measure starts a case's servers, runs its rounds, and stops them.
func measure(ctx context.Context, o options, c loadCase) (map[string][]sample, error) {
	l := loadSpec{Conns: c.conns, Streams: c.streams, Requests: c.requests(o.requests), BodySize: c.peer.BodySize, Want: len(peers.Body)}
	if c.peer.Answer == peers.AnswerLarge {
		l.Want = peers.LargeSize
	}
	to := func(server *contender) loadSpec {
		l := l
		l.Addr = server.addr
		return l
	}
	return rounds(ctx, o, c, func(server *contender) (s sample, err error) {
		return s, server.ask(connectCommand, to(server), new(bool))
	}, func(server *contender) (sample, error) {
		return server.turn(loadCommand, to(server))
	})
}

// measureHandshakes is measure for connections with one request.
func measureHandshakes(ctx context.Context, o options) (map[string][]sample, error) {
	return rounds(ctx, o, loadCase{name: "handshakes"}, func(*contender) (s sample, err error) { return s, nil }, func(server *contender) (sample, error) {
		return server.turn(handshakeCommand, loadSpec{Addr: server.addr, Conns: o.handshakes, Want: len(peers.Body)})
	})
}

// measureBeside is measure for requests on one connection with streams of which one has a handler
// that sleeps.
func measureBeside(ctx context.Context, o options, streams int, sleep time.Duration) (map[string][]sample, error) {
	load := loadCase{name: "beside a handler that sleeps", peer: peers.Options{Handler: peers.Handler{Mixed: true, Sleep: sleep}}}
	o.kinds = slices.DeleteFunc(slices.Clone(o.kinds), func(kind string) bool { return kind == nginxKind || kind == caddyKind })
	to := func(server *contender) loadSpec {
		return loadSpec{Addr: server.addr, Conns: 1, Streams: streams, Want: len(peers.Body)}
	}
	return rounds(ctx, o, load, func(server *contender) (s sample, err error) {
		return s, server.ask(connectCommand, to(server), new(bool))
	}, func(server *contender) (sample, error) {
		return server.turn(besideCommand, to(server))
	})
}

// turn puts a load on a server once.
func (c *contender) turn(name string, l loadSpec) (s sample, err error) {
	var allocated [2]uint64
	if c.allocations != nil {
		if allocated[0], err = c.allocations(); err != nil {
			return s, err
		}
	}
	before, err := c.cpu()
	if err != nil {
		return s, err
	}
	var r loadResult
	if err := c.ask(name, l, &r); err != nil {
		return s, err
	}
	after, err := c.cpu()
	if err != nil {
		return s, err
	}
	if c.allocations != nil {
		if allocated[1], err = c.allocations(); err != nil {
			return s, err
		}
	}
	if r.Good == 0 {
		return s, errors.New("no request was answered")
	}
	good := float64(r.Good)
	return sample{
		cpu: float64((after - before).Nanoseconds()) / 1000 / good, packets: float64(r.Packets) / good,
		allocations: float64(allocated[1]-allocated[0]) / good, failures: r.Failures,
		waits: [3]float64{milliseconds(r.Waits[0]), milliseconds(r.Waits[1]), milliseconds(r.Waits[2])},
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// measureIdle returns what an idle connection costs a server. The pause is for what follows the
// requests.
func measureIdle(ctx context.Context, kind string, conns int, pause time.Duration) (bytes, goroutines float64, err error) {
	server, err := process.StartService(ctx, process.Options{CPU: process.AnyCPU}, serverRole, serverConfig{kind, peers.Options{}})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	client, err := process.StartService(ctx, process.Options{CPU: process.AnyCPU}, clientRole, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, client.Stop()) }()
	c := &contender{client: client}
	var memory [2]int64
	var count [2]int
	for i, n := range []int{1, conns} { // what the first connection needs is not per connection
		if err := c.ask(connectCommand, loadSpec{Addr: server.Addr, Conns: n, Want: len(peers.Body)}, new(bool)); err != nil {
			return 0, 0, err
		}
		time.Sleep(pause)
		if err := server.Settle(); err != nil {
			return 0, 0, err
		}
		if memory[i], err = server.AnonymousMemory(); err != nil {
			return 0, 0, err
		}
		if count[i], err = server.Goroutines(); err != nil {
			return 0, 0, err
		}
	}
	return float64(memory[1]-memory[0]) / float64(conns), float64(count[1]-count[0]) / float64(conns), nil
}
