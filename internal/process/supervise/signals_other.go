//go:build !unix

package supervise

import (
	"os"
	"os/signal"
)

// watchSignals turns an interrupt into an ordered stop until stop is called.
func (m *Master) watchSignals() (stop func()) {
	signals := make(chan os.Signal, 4)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
				m.Stop()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// signal kills the process if the system cannot send sig.
func (c ownChild) signal(sig os.Signal) error {
	if err := c.command.Process.Signal(sig); err != nil {
		return c.command.Process.Kill()
	}
	return nil
}
