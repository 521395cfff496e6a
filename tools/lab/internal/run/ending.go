//go:build linux

package run

import (
	"slices"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
)

// close ends all processes and returns when they have gone.
func (f *fleet) close() {
	f.mu.Lock()
	f.closing = true
	started := append([]*child(nil), f.started...)
	f.mu.Unlock()
	// Clients first: whoever ends first has to reset the connections, and theirs
	// are set to it. Masters before their workers, which they would replace. A
	// master has not ended, for os/exec, before its workers have.
	f.stop(control.Client)
	waitAll(started, endLimit, control.Client)
	f.stop(control.Master)
	f.stop(control.Server)
	waitAll(started, endLimit, control.Master, control.Server)
	for _, c := range started {
		c.kill()
	}
	for _, c := range started {
		<-c.ended
	}
	_ = f.listener.Close()
	f.waitForLinks()
	f.spawner.Close()
}

// kill kills a process and its group: workers of prefork, too.
func (c *child) kill() { _ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) }

// killOn has all processes killed when hurry is closed, until the function that it
// returns is called. Whoever waits for them then need not wait any longer.
func (f *fleet) killOn(hurry <-chan struct{}) (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-hurry:
			f.killAll()
		case <-over:
		}
	}()
	return func() { close(over) }
}

func (f *fleet) killAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing, f.killed = true, true
	for _, c := range f.started {
		c.kill()
	}
}

// endLimit is how long a process may take to end before it is killed. A process
// with many connections takes a while.
const endLimit = 20 * time.Second

// stop tells processes of a role to end.
func (f *fleet) stop(role control.Role) {
	for _, m := range f.of(role) {
		_ = m.link.Send(control.Message{Stop: &control.Stop{}})
	}
}

// waitAll waits until processes of some roles have ended.
func waitAll(started []*child, limit time.Duration, roles ...control.Role) {
	deadline := time.After(limit)
	for _, c := range started {
		if !slices.Contains(roles, c.role) {
			continue
		}
		select {
		case <-c.ended:
		case <-deadline:
			return
		}
	}
}

// waitForLinks waits until workers of prefork, which are not our children, have
// gone; those that do not are killed.
func (f *fleet) waitForLinks() {
	for end := time.Now().Add(endLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if len(f.of(control.Server)) == 0 {
			return
		}
	}
	for _, m := range f.of(control.Server) {
		_ = syscall.Kill(m.PID, syscall.SIGKILL)
	}
}
