//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A fleet is the processes of a run.
type fleet struct {
	listener *net.UnixListener
	spawner  *process.Spawner
	configs  func(control.Hello) control.Config

	mu      sync.Mutex
	members []*member
	started []*child
	failure error         // the first
	closing bool          // whoever ends now is meant to
	killed  bool          // nobody is to live any more
	changed chan struct{} // has an element when something has changed
}

// A child is a process that the coordinator has started.
type child struct {
	cmd   *exec.Cmd
	tail  *tail
	role  control.Role
	index int
	ended chan struct{}
}

// A member is a process that has said hello: a child, or a worker of prefork.
type member struct {
	control.Hello
	link *control.Link

	// The fleet's mutex guards the rest.
	isReady bool
	isGone  bool
	stats   control.Stats
	asked   int // answers to Sample
	done    *control.Done
	turned  int // sweeps of one Turn each
}

func newFleet(configs func(control.Hello) control.Config) (*fleet, error) {
	ln, err := control.Listen()
	if err != nil {
		return nil, err
	}
	f := &fleet{listener: ln, spawner: process.NewSpawner(), configs: configs, changed: make(chan struct{}, 1)}
	go f.accept()
	return f, nil
}

// accept greets processes.
func (f *fleet) accept() {
	for {
		conn, err := f.listener.AcceptUnix()
		if err != nil {
			return
		}
		if control.IsOurs(conn) {
			go f.attend(control.NewLink(conn))
		} else {
			_ = conn.Close()
		}
	}
}

// attend listens to one process.
func (f *fleet) attend(link *control.Link) {
	defer link.Close()
	m, err := link.Receive()
	if err != nil || m.Hello == nil {
		return
	}
	who := &member{Hello: *m.Hello, link: link}
	config := f.configs(who.Hello)
	f.mu.Lock()
	if f.closing { // too late: the link's end ends it
		f.mu.Unlock()
		return
	}
	f.members = append(f.members, who)
	f.mu.Unlock()
	if link.Send(control.Message{Config: &config}) != nil {
		return
	}
	for {
		m, err := link.Receive()
		f.mu.Lock()
		if err != nil {
			who.isGone = true
			if !f.isChild(who.PID) { // of a child, its end says more
				f.fail(fmt.Errorf("%s has gone", who))
			}
		} else {
			f.take(who, m)
		}
		f.mu.Unlock()
		f.wake()
		if err != nil {
			return
		}
	}
}

// isChild reports whether the coordinator has started a process; mu is held.
func (f *fleet) isChild(pid int) bool {
	for _, c := range f.started {
		if c.cmd.Process.Pid == pid {
			return true
		}
	}
	return false
}

// String names the process.
func (m *member) String() string { return fmt.Sprintf("%s %d (pid %d)", m.Role, m.Index, m.PID) }

// take takes in a message; mu is held.
func (f *fleet) take(who *member, m control.Message) {
	switch {
	case m.Ready != nil:
		who.isReady = true
	case m.Turned != nil:
		who.turned++
	case m.Done != nil:
		who.done = m.Done
	case m.Failure != nil:
		f.fail(fmt.Errorf("%s: %s", who, m.Failure.Text))
	case m.Stats != nil:
		if m.Stats.Asked {
			who.asked++
		} else { // what is counted only when asked
			m.Stats.Heard = who.stats.Heard
			if who.Role == control.Server {
				m.Stats.Connections = who.stats.Connections
			}
		}
		who.stats = *m.Stats
	}
}

// fail keeps the first failure; mu is held.
func (f *fleet) fail(err error) {
	if f.failure == nil && !f.closing {
		f.failure = err
	}
}

// failed returns the first failure; nil: there was none.
func (f *fleet) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// wake has whoever waits look again.
func (f *fleet) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// start starts a process.
func (f *fleet) start(o *Options, role control.Role, index int, settings []string) error {
	args := append(slices.Clone(o.ProcessArgs), string(role), strconv.Itoa(index), f.listener.Addr().String())
	cmd, errors := process.Options{CPU: process.AnyCPU, Env: settings}.Command(context.Background(), o.Program, args...), &tail{}
	cmd.Stderr = errors
	cmd.WaitDelay = endLimit // workers of prefork have it, too
	if err := f.spawner.Start(cmd); err != nil {
		return err
	}
	c := &child{cmd: cmd, tail: errors, role: role, index: index, ended: make(chan struct{})}
	f.mu.Lock()
	f.started = append(f.started, c)
	if f.killed {
		c.kill()
	}
	f.mu.Unlock()
	go func() {
		err := cmd.Wait()
		f.mu.Lock()
		f.fail(fmt.Errorf("%s %d (pid %d) has ended: %v\n%s", role, index, cmd.Process.Pid, err, errors))
		f.mu.Unlock()
		close(c.ended)
		f.wake()
	}()
	return nil
}

// errTimeout is the end of a wait.
var errTimeout = errors.New("it takes too long")

// wait returns when condition, which is called with mu held, is true. look, which
// may be nil, is called now and then.
func (f *fleet) wait(ctx context.Context, limit time.Duration, condition func() bool, look func()) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		f.mu.Lock()
		isTrue, failure := condition(), f.failure
		f.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case isTrue:
			return nil
		}
		select {
		case <-f.changed:
		case <-tick.C:
			if look != nil {
				look()
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return errTimeout
		}
	}
}

const lookInterval = 200 * time.Millisecond

// of returns the members of a role.
func (f *fleet) of(role control.Role) []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ofLocked(role)
}

// each calls visit, with mu held, for the members of a role.
func (f *fleet) each(role control.Role, visit func(m *member)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.ofLocked(role) {
		visit(m)
	}
}

func (f *fleet) ofLocked(role control.Role) []*member {
	var all []*member
	for _, m := range f.members {
		if m.Role == role && !m.isGone {
			all = append(all, m)
		}
	}
	return all
}

// sample has all processes send their stats, and waits for them.
func (f *fleet) sample(ctx context.Context) error { return f.ask(ctx, control.Sample{}) }

func (f *fleet) ask(ctx context.Context, order control.Sample) error {
	f.mu.Lock()
	wanted := make(map[*member]int)
	for _, m := range f.members {
		if !m.isGone {
			wanted[m] = m.asked + 1
		}
	}
	f.mu.Unlock()
	for m := range wanted {
		if err := m.link.Send(control.Message{Sample: &order}); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	err := f.wait(ctx, sampleLimit, func() bool {
		for m, n := range wanted {
			if m.asked < n {
				return false
			}
		}
		return true
	}, nil)
	if errors.Is(err, errTimeout) {
		return fmt.Errorf("processes do not say what they have counted: %w", err)
	}
	return err
}

const sampleLimit = time.Minute
