//go:build !unix

package supervise

import (
	"os"
	"os/signal"
	"time"
)

// attachment is the part of a Worker that depends on the system.
type attachment struct{}

// ShieldInherited does nothing: workers inherit no files.
func ShieldInherited() {}

// attach always makes the worker a bare one on these systems. An interrupt at the
// terminal reaches the whole group; only the master handles it.
func (w *Worker) attach() error {
	w.bare = true
	if !w.options.NoSignals {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	return nil
}

func (w *Worker) orphanGrace() time.Duration      { return w.options.OrphanGrace }
func (w *Worker) send(messageType, []byte) error  { return nil }
func (w *Worker) sendJSON(messageType, any) error { return nil }
