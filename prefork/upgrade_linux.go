package prefork

import (
	"context"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/process/hold"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/process/systemd"
)

// takeHolderSocket returns the descriptor of a manager's socket, and removes its variable.
// Processes that this one starts do not inherit what the holder has passed.
func takeHolderSocket() int {
	text, _ := supervise.TakeEnv(hold.Variable)
	last, err := strconv.Atoi(text)
	if err != nil || last < inheritedListener {
		return 0
	}
	for fd := inheritedListener; fd <= last; fd++ {
		unix.CloseOnExec(fd)
	}
	return last
}

// connectHolder returns the holder of this manager.
func connectHolder() (*holder, error) {
	// A terminal sends them to all processes. The holder passes its own on.
	signal.Notify(make(chan os.Signal, 1), supervise.Signals()...)
	m, err := hold.Connect(holderSocket)
	if err != nil {
		return nil, err
	}
	return &holder{managerLink: m}, nil
}

// signal passes the holder's signals to m until ctx ends.
func (h *holder) signal(ctx context.Context, m *supervise.Master) {
	for {
		select {
		case s := <-h.Signals():
			m.Signal(s)
		case <-ctx.Done():
			return
		}
	}
}

// hold is ListenAndServe in the process that was started first.
func (p *Prefork) hold() error {
	config := p.config()
	if err := p.limit(&config); err != nil {
		return err
	}
	// This process is the parent of all workers, by which they recognise its segment.
	memory, err := share(&config, otherProcesses+holderProcesses)
	if err != nil {
		return err
	}
	p.state.Store(&state{}) // Status reads the segment, as in a worker
	passed, err := systemd.Passed()
	if err != nil {
		return err
	}
	var files []*os.File
	for i := range passed { // they keep their numbers
		f, err := hold.Inherited(inheritedListener+i, "systemd")
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	files = append(files, config.SharedFiles...)
	entries := make(map[string]supervise.Entry)
	if f := memory.File(); f != nil {
		entries[entrySegment] = supervise.Entry{Files: []*os.File{f}}
	}
	result, err := hold.Run(hold.Config{
		Process:     supervise.Process{Args: os.Args, Env: os.Environ(), Files: files},
		Entries:     entries,
		Logger:      p.logger(),
		BootTimeout: p.bootTimeout(),
		Grace:       p.grace() + max(p.ShutdownDelay, 0),
		OnReaped:    func(pid int) { memory.Reap(pid) },
	})
	if err != nil {
		return err
	}
	return publicError(supervise.ParseResult(result))
}
