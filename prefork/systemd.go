package prefork

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/process/systemd"
)

const (
	// notifyInterval is how often systemd gets the present status, if it has changed.
	notifyInterval = time.Second
	// reloadInterval is how often the master looks whether a restart is over.
	reloadInterval = 50 * time.Millisecond
	// endSlack is the time that the master needs beyond those of its workers.
	endSlack = 2 * time.Second
)

// A notifier tells systemd what the fleet does. It does nothing if systemd does not
// listen.
type notifier struct {
	service *systemd.Service
	log     Logger
	within  time.Duration // the time of an orderly end
	reloads chan int      // restarts that were over when one was asked for
	master  *supervise.Master
}

// newNotifier wraps c's hooks so that systemd knows of readiness, restarts and the end.
// The caller starts run after it has made the master.
func newNotifier(s *systemd.Service, c *supervise.Config) *notifier {
	n := &notifier{service: s, log: c.Logger, within: c.StopDelay + c.GracePeriod + endSlack, reloads: make(chan int, 1)}
	if !s.Notifies() {
		return n
	}
	hooks := &c.Hooks
	ready, reload, stopping := hooks.OnFleetReady, hooks.OnReload, hooks.OnStopping
	hooks.OnFleetReady = func() {
		s := n.master.Status()
		n.send("READY=1", mainPID(), systemd.Status(statusLine(&s)))
		if ready != nil {
			ready()
		}
	}
	hooks.OnReload = func() ([]byte, error) {
		n.send(systemd.Reloading()...)
		select {
		case n.reloads <- finished(n.master.Status()):
		default: // run looks for the end of the one before already
		}
		return reload()
	}
	hooks.OnStopping = func() {
		n.send(systemd.Stopping(n.within)...)
		if stopping != nil {
			stopping()
		}
	}
	return n
}

// mainPID returns the line that names the process that was started first.
func mainPID() string {
	pid := os.Getpid()
	if IsManager() {
		pid = os.Getppid()
	}
	return fmt.Sprintf("MAINPID=%d", pid)
}

// run sends the status when it changes, READY=1 when a restart is over, and WATCHDOG=1
// as long as the master's loop runs, until ctx ends.
func (n *notifier) run(ctx context.Context) {
	if !n.service.Notifies() {
		return
	}
	if n.service.Watchdog > 0 {
		go n.watch(ctx)
	}
	if IsManager() && n.master.Status().Started { // the master before may have died during a restart
		n.send("READY=1", mainPID())
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	const none = -1
	last, before := "", none
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-n.reloads:
			before = now
		case <-timer.C:
		}
		s := n.master.Status()
		if before != none && (s.Stopping || s.Paused || !s.Rolling && !s.Soaking && finished(s) > before) {
			before = none
			if s.Started && !s.Stopping { // otherwise OnFleetReady says so, or nobody
				n.send("READY=1")
			}
		}
		if text := statusLine(&s); text != last {
			last = text
			n.send(systemd.Status(text))
		}
		timer.Reset(notifyInterval)
		if before != none {
			timer.Reset(reloadInterval)
		}
	}
}

// watch sends WATCHDOG=1 thrice in the time of the watchdog. It is silent while the
// master's loop does not answer; workers that hang are the master's affair.
func (n *notifier) watch(ctx context.Context) {
	ticker := time.NewTicker(n.service.Watchdog / 3)
	defer ticker.Stop()
	for {
		if n.master.Probe(ctx) == nil {
			n.send("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// send sends lines to systemd.
func (n *notifier) send(lines ...string) {
	if err := n.service.Notify(lines...); err != nil {
		n.log.Printf("%v", err)
	}
}

// finished counts the restarts that are over.
func finished(s supervise.Status) int { return s.Restarts + s.RestartsFailed }

// statusLine returns the fleet's state in one line.
func statusLine(s *supervise.Status) string {
	ready := 0
	for i := range s.Slots {
		if w := s.Slots[i].Workers; len(w) > 0 && w[0].Phase == supervise.PhaseReady {
			ready++
		}
	}
	text := fmt.Sprintf("%d of %d workers serve", ready, s.Wanted)
	for _, part := range []struct {
		isSo bool
		text string
	}{
		{s.Rolling, "being replaced"}, {s.Degraded, "degraded"}, {s.Paused, "paused"}, {s.Stopping, "stopping"},
		{s.RestartError != "", "the last restart failed: " + s.RestartError},
	} {
		if part.isSo {
			text += ", " + part.text
		}
	}
	return text
}
