package prefork

import (
	"errors"
	"fmt"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

var (
	// ErrOverRecovery is returned by the master's ListenAndServe when workers
	// died more often than RecoverThreshold allows.
	ErrOverRecovery = supervise.ErrOverRecovery
	// ErrOnlyReuseportOnWindows is returned on Windows without Reuseport.
	ErrOnlyReuseportOnWindows = errors.New("windows only supports Reuseport = true")
	// ErrCommandProducerNilCmd is returned when a CommandProducer returned
	// neither a command nor an error.
	ErrCommandProducerNilCmd = errors.New("sluice: CommandProducer returned no command")
	// ErrCommandProducerNotStarted is returned when a CommandProducer returned a
	// command that it had not started.
	ErrCommandProducerNotStarted = errors.New("sluice: CommandProducer returned a command that is not started")
	// ErrQuit is returned by the master's ListenAndServe after SIGQUIT. By
	// convention the process then exits with status 131.
	ErrQuit = supervise.ErrQuit

	// ErrStopping is returned by Restart and UpgradeWorkers when the fleet is ending, or when SIGWINCH
	// has ended its workers.
	ErrStopping = supervise.ErrStopping
	// ErrNotMaster is returned by Restart and UpgradeWorkers in a process that runs no fleet.
	ErrNotMaster = errors.New("sluice: only the master of a running fleet can do that")
	// ErrNoBackplane is returned by Subscribe of a Backplane, and by a worker's
	// ListenAndServe after Subscribe, if the workers cannot be connected: on systems other
	// than Linux, and in workers that the master does not control.
	ErrNoBackplane = errors.New("sluice: this worker cannot be connected with the others")

	errNoServeFunc = errors.New("sluice: the Prefork has no function to serve with")
	errNoListener  = errors.New("sluice: the worker was started without a listener: CommandProducer must pass its files on")
)

// A BootError says why a worker cannot serve. The master's ListenAndServe returns
// it when a worker of the first start reports an error. A RestartError wraps it.
type BootError struct {
	// Slot is the number of the worker's slot.
	Slot int
	// Class is "config" for an error of OnWorkerStart, "listen" for an error of the
	// sockets, "memory" for an error of package shared's segment, "serve" for an
	// error of the Serve function, "backplane" if the workers cannot be connected.
	Class string
	// Text is the text of the worker's error.
	Text string
}

// Error returns the worker's error.
func (e *BootError) Error() string {
	return fmt.Sprintf("sluice: worker %d cannot start: %s: %s", e.Slot, e.Class, e.Text)
}

// A RestartError is returned by Restart and UpgradeWorkers when a new worker did not
// begin to serve, or died or hung within SoakTime. All slots have the version from
// before again.
type RestartError struct {
	// Slot is the number of the new worker's slot.
	Slot int
	// Err is the reason: a *BootError if the worker reported it.
	Err error
}

// Error returns the slot and the reason.
func (e *RestartError) Error() string {
	return fmt.Sprintf("sluice: rolling restart failed in slot %d: %v", e.Slot, e.Err)
}

// Unwrap returns Err.
func (e *RestartError) Unwrap() error { return e.Err }

// errUpgradeNeedsSockets: workers that the holder starts must get their sockets from it.
var errUpgradeNeedsSockets = errors.New("sluice: Upgrade works without CommandProducer, and on Linux only")

// publicError translates what the supervisor returns.
func publicError(err error) error {
	var boot *supervise.BootError
	var restart *supervise.RestartError
	switch {
	case errors.As(err, &restart):
		return &RestartError{Slot: restart.Slot, Err: publicError(restart.Err)}
	case errors.Is(err, supervise.ErrNotStarted):
		return ErrCommandProducerNotStarted
	case errors.As(err, &boot):
		return &BootError{Slot: boot.Slot, Class: boot.Class, Text: boot.Text}
	}
	return err
}
