//go:build linux

package run

import (
	"slices"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/control"
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
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // its group: workers of prefork, too
	}
	for _, c := range started {
		<-c.ended
	}
	_ = f.listener.Close()
	f.waitForLinks()
	f.spawner.close()
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
