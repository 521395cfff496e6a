//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// Options say what is run, and how.
type Options struct {
	Scenario scenario.Scenario
	Duration time.Duration
	Active   int     // connections that send; 0: all, one after the other (a sweep)
	Rate     float64 // requests per second; 0: as fast as answers come
	InFlight int     // requests of a sweep at the same time; 0: as many as its clients have
	AtOnce   int     // client processes that send at the same time in a sweep; 0: as planned
	Dialers  int     // connections that a client makes at the same time; 0: 4
	// Broadcasts is how many messages all WebSockets get after the load.
	Broadcasts int
	// Program and ProcessArgs start a process of the lab: what follows them is
	// its role, its number and the coordinator's address.
	Program     string
	ProcessArgs []string
	Header      result.Header
	Progress    Progress
	System      system.Files
	// Hurry is for who has cancelled the run and does not want to wait for its end:
	// when it is closed, all processes are killed. It may be nil.
	Hurry <-chan struct{}
}

// ErrBlocked is returned, with what is in the way, where the plan says that the run
// would fail.
var ErrBlocked = errors.New("the system does not allow for it; \"sluice lab preflight\" says what has to be changed")

// Check tells what is wrong with o, and returns ErrBlocked where the run would fail.
// It starts nothing.
func (o *Options) Check() error {
	if err := o.check(); err != nil {
		return err
	}
	p, err := o.Plan()
	if err != nil {
		return err
	}
	return blocked(&p)
}

// check tells what is wrong with o itself.
func (o *Options) check() error {
	discards := o.Scenario.Workload.Kind == scenario.Discard // at a rate, too
	switch {
	case !(o.Rate >= 0 && o.Rate <= maxRate): // nor is it NaN
		return fmt.Errorf("a rate is a number from 0 to %.0e, not %v", maxRate, o.Rate)
	case o.Duration < 0, o.Duration == 0 && (o.Rate > 0 || discards):
		return fmt.Errorf("a duration of %v is too short", o.Duration)
	case o.Duration > maxDuration:
		return fmt.Errorf("a duration of %v is too long: at most %v", o.Duration, maxDuration)
	case o.Active < 0:
		return fmt.Errorf("%d connections cannot be active", o.Active)
	case o.InFlight < 0:
		return fmt.Errorf("%d requests cannot be on their way", o.InFlight)
	case o.AtOnce < 0:
		return fmt.Errorf("%d clients cannot send at the same time", o.AtOnce)
	case (o.InFlight > 0 || o.AtOnce > 0) && (o.Active > 0 || o.Rate > 0):
		return errors.New("how many requests are on their way, and how many clients send, at the same time is for a sweep: --in-flight and --at-once exclude --active and --rate")
	case o.Dialers < 0:
		return fmt.Errorf("%d connections cannot be made at the same time", o.Dialers)
	case o.Broadcasts < 0, o.Broadcasts > maxBroadcasts:
		return fmt.Errorf("there may be 0 to %d broadcasts, not %d", maxBroadcasts, o.Broadcasts)
	case o.Broadcasts > 0 && o.Scenario.Protocol != scenario.WebSocket:
		return errors.New("broadcasts are for WebSockets: --server ws-epoll, for example")
	}
	return checkPings(&o.Scenario)
}

// blocked returns ErrBlocked with what is in the way, nil if nothing is that would
// make the run fail.
func blocked(p *plan.Plan) error {
	var fatal []string
	for _, o := range p.Obstacles {
		if o.IsFatal {
			fatal = append(fatal, fmt.Sprintf("%s: %s needed, there are %s", o.What, result.Count(o.Need), result.Count(o.Have)))
		}
	}
	if len(fatal) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(fatal, "; "), ErrBlocked)
}

const (
	defaultDialers = 4
	// firstPort is where a port for servers is looked for: below those that the
	// system gives to clients.
	firstPort    = 18_000
	startLimit   = 2 * time.Minute
	connectLimit = 30 * time.Minute
	// fewProcesses report often, many seldom.
	fewProcesses = 20
	maxRate      = 1e9
	maxDuration  = 30 * 24 * time.Hour
)

// Plan plans o.
func (o *Options) Plan() (plan.Plan, error) {
	p, hold, err := o.planAndHold()
	if err != nil {
		return p, err
	}
	return p, hold.Close()
}

// planAndHold plans o. No other run gets the port before hold is closed.
func (o *Options) planAndHold() (p plan.Plan, hold io.Closer, err error) {
	limits := o.System.Limits()
	port, hold, err := takePort(limits.PortFirst)
	if err != nil {
		return p, nil, err
	}
	return o.planWithin(limits, port), hold, nil
}

// planWithin plans o for a system with limits.
func (o *Options) planWithin(limits plan.Limits, port int) plan.Plan {
	p := plan.Make(o.Scenario, limits, port)
	if o.AtOnce > 0 {
		p.SetAtOnce(o.AtOnce, limits)
	}
	return p
}

// takePort returns a port below limit on which nobody listens, on any address.
// Until servers do, other runs would find it free, too: the name of a socket, which
// nobody connects to, says that it is taken.
func takePort(limit int) (port int, hold io.Closer, err error) {
	last := max(limit, firstPort+1000)
	for port := firstPort; port < last; port++ {
		hold, err := net.Listen("unix", fmt.Sprintf("@sluice-lab-port-%d", port))
		if err != nil {
			continue
		}
		ln, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		if err == nil {
			return port, hold, ln.Close()
		}
		_ = hold.Close()
	}
	return 0, nil, fmt.Errorf("no port from %d to %d is free", firstPort, last-1)
}

// A session is a run that is going on.
type session struct {
	*Options
	plan   plan.Plan
	fleet  *fleet
	result *result.Result
	turns  *turns // nil: all clients send at the same time
}

// Run carries out o. It returns when all processes have gone.
func Run(ctx context.Context, o Options) (*result.Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p, hold, err := o.planAndHold()
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	if err := blocked(&p); err != nil {
		return nil, err
	}
	s := &session{Options: &o, plan: p, result: &result.Result{Scenario: o.Scenario, Header: o.Header}}
	s.result.Header.LoadBefore = o.System.Load()
	s.result.Layout = s.layout()
	if s.fleet, err = newFleet(s.config); err != nil {
		return nil, err
	}
	defer s.fleet.killOn(o.Hurry)() // while it closes, too
	defer s.fleet.close()
	for _, phase := range []func(context.Context) error{s.startServers, s.startClients, s.connect, s.load, s.broadcast, s.pings, s.idle, s.askAgain} {
		if err := phase(ctx); err != nil {
			return nil, err
		}
	}
	o.Progress.Phase("ending", 0)
	return s.result, nil
}

// layout describes the plan.
func (s *session) layout() result.Layout {
	servers, clients := s.plan.Processes()
	return result.Layout{
		Servers: servers, Clients: clients, Addresses: len(s.plan.Servers),
		Loops: s.plan.Loops, ClientLoops: s.plan.ClientLoops,
		Processors: s.plan.Processors, ClientProcessors: s.plan.ClientProcessors, MaxWorkers: s.plan.MaxWorkers,
		Environment: s.garbage(), Obstacles: s.plan.Obstacles,
	}
}

// config is what a process is to be.
func (s *session) config(h control.Hello) control.Config {
	servers, clients := s.plan.Processes()
	c := control.Config{Scenario: s.Scenario, MaxWorkers: s.plan.MaxWorkers, Loops: s.plan.Loops, Processors: s.plan.Processors, Every: 200 * time.Millisecond}
	if h.Role == control.Client {
		c.Loops = s.plan.ClientLoops
	}
	if servers+clients > fewProcesses {
		c.Every = time.Second
	}
	if h.Role != control.Client && h.Index < len(s.plan.Servers) {
		group := s.plan.Servers[h.Index]
		c.Addr = group.Addr
		c.Workers = group.Workers
	}
	return c
}

// settings returns the environment of a process.
func (s *session) settings(role control.Role, processors int) []string {
	settings := []string{fmt.Sprintf("GOMAXPROCS=%d", processors)}
	if role != control.Client {
		settings = append(settings, s.garbage()...)
	}
	return settings
}

// garbage returns when the servers collect garbage. Many processes with a small
// heap each would, by default, wait for 4 MB of garbage each.
func (s *session) garbage() []string {
	if servers, _ := s.plan.Processes(); servers > fewProcesses {
		return []string{"GOGC=25"}
	}
	return nil
}

// startServers starts the servers and waits until they listen.
func (s *session) startServers(ctx context.Context) error {
	role := control.Server
	if s.Scenario.Server == scenario.Prefork {
		role = control.Master
	}
	return s.startAll(ctx, "servers", role, len(s.plan.Servers), s.plan.Processors)
}

// startClients starts the clients.
func (s *session) startClients(ctx context.Context) error {
	return s.startAll(ctx, "clients", control.Client, len(s.plan.Clients), s.plan.ClientProcessors)
}

// startAll starts n processes of a role and waits until they are ready.
func (s *session) startAll(ctx context.Context, name string, role control.Role, n, processors int) error {
	s.Progress.Phase(name, n)
	for i := range n {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.fleet.start(s.Options, role, i, s.settings(role, processors)); err != nil {
			return fmt.Errorf("cannot start a %s: %w", role, err)
		}
	}
	ready := 0
	err := s.fleet.wait(ctx, startLimit, func() bool {
		ready = 0
		for _, m := range s.fleet.ofLocked(role) {
			if m.isReady {
				ready++
			}
		}
		return ready == n
	}, func() { s.Progress.Set(ready, "") })
	if errors.Is(err, errTimeout) {
		return fmt.Errorf("%d of %d %s are ready: %w", ready, n, name, err)
	}
	return err
}
