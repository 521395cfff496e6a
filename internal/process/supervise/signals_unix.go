//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals returns the signals that a Master handles.
func Signals() []os.Signal {
	wanted := []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
	}
	if !hasTerminal() {
		// On a terminal, job control and resizing send these signals.
		wanted = append(wanted, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGWINCH)
	}
	return wanted
}

// watchSignals turns the process's signals into events until stop is called.
func (m *Master) watchSignals() (stop func()) {
	signals := make(chan os.Signal, 16)
	done := make(chan struct{})
	signal.Notify(signals, Signals()...)
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				m.Signal(s)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// Signal does what signal s asks for, if it is one of those that Run handles.
func (m *Master) Signal(s os.Signal) {
	if number, ok := s.(syscall.Signal); ok {
		// The name: the text of SIGTTIN is "stopped (tty input)", and nothing has stopped.
		m.config.Logger.Printf("master (pid %d): got %s", os.Getpid(), unix.SignalName(number))
	}
	switch s {
	case syscall.SIGTERM, syscall.SIGINT:
		m.Stop()
	case syscall.SIGQUIT:
		m.events.put(event{kind: evQuit})
	case syscall.SIGHUP:
		m.restart(0, CauseRestart)
	case syscall.SIGUSR1:
		m.Reopen()
	case syscall.SIGUSR2:
		m.restart(0, CauseUpgrade)
	case syscall.SIGTTIN:
		m.events.put(event{kind: evScaleBy, number: 1})
	case syscall.SIGTTOU:
		m.events.put(event{kind: evScaleBy, number: -1})
	case syscall.SIGWINCH:
		m.events.put(event{kind: evPause})
	}
}

func (c ownChild) signal(sig os.Signal) error { return c.command.Process.Signal(sig) }

// hasTerminal reports whether stdin is a terminal.
func hasTerminal() bool {
	_, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	return err == nil
}
