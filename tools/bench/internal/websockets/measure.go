package websockets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// collections are how often a server collects its garbage before its memory counts: each
// halves stacks that are larger than their goroutines need.
const collections = 5

// untilIdle is how long connections have been quiet when their memory is measured. Some
// servers keep the buffers of a connection for a second or two after its last message.
const untilIdle = 4 * time.Second

// samples are what was measured of one server, round by round.
type samples struct {
	cpu        []float64 // µs per message, or per member
	spans      []float64 // of broadcasts: ms from when the first member has the message until the last has it
	failures   int
	idleBytes  int64
	goroutines float64 // per connection
}

// A contender is a server that is alive.
type contender struct {
	kind, addr string
	process    interface {
		CPU() (time.Duration, error)
		Stop() error
	}
	service *process.Server // process, with what it answers; nil: a program of --program
	holder  *process.Child  // holds its connections in broadcasts; nil: none
}

func (c *contender) stop() (err error) {
	if c.holder != nil {
		err = c.holder.Stop()
	}
	return errors.Join(err, c.process.Stop())
}

// startAll starts a server of each kind. What it returns is to be stopped even if it failed.
func startAll(ctx context.Context, o options) (all []*contender, err error) {
	for _, kind := range o.kinds {
		if line, ok := o.others[kind]; ok {
			program, addr, err := process.StartCommand(ctx, serverCPU, line)
			if err != nil {
				return all, fmt.Errorf("%s: %w", kind, err)
			}
			all = append(all, &contender{kind: kind, addr: addr, process: program})
			continue
		}
		service, served := process.Options{CPU: serverCPU, Procs: 1}, kind
		if kind == before {
			service.Program, served = o.before, epoll
		}
		s, err := process.StartService(ctx, service, serveRole, served)
		if err != nil {
			return all, fmt.Errorf("%s: %w", kind, err)
		}
		all = append(all, &contender{kind: kind, addr: s.Addr, process: s, service: s})
	}
	return all, nil
}

func stopAll(all []*contender) (err error) {
	for _, c := range all {
		err = errors.Join(err, c.stop())
	}
	return err
}

// A turn is what was measured of a server in one round.
type turn struct {
	cpu, span float64
	failures  int
}

// inRounds has each server take its turns.
func inRounds(name string, rounds int, servers []*contender, take func(c *contender) (turn, error)) (map[string]*samples, error) {
	var kinds []string
	for _, c := range servers {
		kinds = append(kinds, c.kind)
	}
	turns, err := command.Rounds(name, rounds, kinds, func(i int, _ bool) (turn, error) { return take(servers[i]) })
	all := make(map[string]*samples)
	for kind, own := range turns {
		got := new(samples)
		for _, turn := range own {
			got.cpu, got.spans = append(got.cpu, turn.cpu), append(got.spans, turn.span)
			got.failures += turn.failures
		}
		all[kind] = got
	}
	return all, err
}

// measureEcho starts a case's servers, runs its rounds, and stops them.
func measureEcho(ctx context.Context, o options, e echoCase) (all map[string]*samples, err error) {
	servers, err := startAll(ctx, o)
	defer func() { err = errors.Join(err, stopAll(servers)) }()
	if err != nil {
		return nil, err
	}
	generator, err := load.Start(ctx, process.Options{CPU: clientCPU, Procs: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	return inRounds(e.name, o.rounds, servers, func(c *contender) (turn, error) {
		result, before, after, err := load.Measure(generator, load.Load{
			Addr: c.addr, Conns: e.conns, Duration: o.duration, Requests: o.messages,
			Request: load.Get("/", ""), Message: bytes.Repeat([]byte("a"), e.size),
		}, c.process.CPU)
		return turn{cpu: microseconds(after-before) / float64(max(result.Requests, 1)), failures: result.Failures}, err
	})
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// measureBroadcast holds connections to all servers, measures what they cost while they are
// idle, and sends them broadcasts.
func measureBroadcast(ctx context.Context, o options) (all map[string]*samples, err error) {
	servers, err := startAll(ctx, o)
	defer func() { err = errors.Join(err, stopAll(servers)) }()
	if err != nil {
		return nil, err
	}
	idle := make(map[string]*samples)
	for _, c := range servers {
		command.Progress("%s: connections to %s", broadcastName, c.kind)
		if idle[c.kind], err = holdIdle(ctx, c, o); err != nil {
			return nil, fmt.Errorf("%s: %w", c.kind, err)
		}
	}
	text := string(bytes.Repeat([]byte("b"), broadcastSize))
	all, err = inRounds(broadcastName, o.rounds, servers, func(c *contender) (turn, error) {
		before, err := c.process.CPU()
		if err != nil {
			return turn{}, err
		}
		var spans []float64
		for range perTurn {
			if err := c.service.Tell(broadcastCommand + " " + text); err != nil {
				return turn{}, err
			}
			span, err := c.take()
			if err != nil {
				return turn{}, err
			}
			spans = append(spans, microseconds(span)/1000)
			var sent int
			if err := c.service.Result(&sent); err != nil || sent != o.conns {
				return turn{}, fmt.Errorf("it was sent to %d: %w", sent, err)
			}
		}
		after, err := c.process.CPU()
		return turn{cpu: microseconds(after-before) / float64(perTurn*o.conns), span: report.Median(spans)}, err
	})
	for kind, got := range all {
		got.idleBytes, got.goroutines = idle[kind].idleBytes, idle[kind].goroutines
	}
	return all, err
}

// take waits until the holder has got a message on each connection, and returns the time from
// the first to the last.
func (c *contender) take() (span time.Duration, err error) {
	if err := c.holder.Tell(""); err != nil {
		return 0, err
	}
	err = c.holder.Result(&span)
	return span, err
}

// holdIdle opens connections, and measures them.
func holdIdle(ctx context.Context, c *contender, o options) (*samples, error) {
	before, goroutines, err := c.state()
	if err != nil {
		return nil, err
	}
	c.holder, err = process.Start(ctx, process.Options{CPU: clientCPU, Procs: 1}, holdRole, holdConfig{Addr: c.addr, Conns: o.conns})
	if err != nil {
		return nil, err
	}
	var isOpen bool
	if err := c.holder.Result(&isOpen); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(o.untilIdle):
	}
	after, more, err := c.state()
	return &samples{idleBytes: (after - before) / int64(o.conns), goroutines: float64(more-goroutines) / float64(o.conns)}, err
}

// state returns the server's memory after garbage collections, and its goroutines.
func (c *contender) state() (memory int64, goroutines int, err error) {
	for range collections {
		if err := c.service.Settle(); err != nil {
			return 0, 0, err
		}
	}
	if memory, err = c.service.AnonymousMemory(); err != nil {
		return 0, 0, err
	}
	goroutines, err = c.service.Goroutines()
	return memory, goroutines, err
}
