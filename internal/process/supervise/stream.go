package supervise

import "errors"

// What Stream returns, besides the system's errors.
var (
	// ErrNoWorker: the worker has ended, or never was.
	ErrNoWorker = errors.New("sluice: there is no such worker")
	// ErrSilent: the worker does not read what the master sends.
	ErrSilent = errors.New("sluice: the worker does not read what the master sends")
)
