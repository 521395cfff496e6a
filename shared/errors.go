package shared

import "errors"

var (
	// ErrFull means that the segment has no room, or no free directory entry, for
	// another value: see [Options.Size].
	ErrFull = errors.New("sluice: the shared segment is full")
	// ErrMismatch means that the name exists with another type or another size.
	ErrMismatch = errors.New("sluice: the shared value has another type or size")
	// ErrName means that a name is empty or longer than [MaxName] bytes.
	ErrName = errors.New("sluice: bad name of a shared value")
	// ErrOption means that an option has an invalid value.
	ErrOption = errors.New("sluice: bad option of a shared value")
	// ErrTooLarge means that the data is larger than the value's maximum size.
	ErrTooLarge = errors.New("sluice: too large for the shared value")
	// ErrBusy means that a living process held a lock for too long, for instance a
	// process that was stopped. Nothing was changed.
	ErrBusy = errors.New("sluice: the shared value is locked by another process")
	// ErrCorrupt means that a file or its contents are not a segment of this
	// version.
	ErrCorrupt = errors.New("sluice: not a shared segment, or a damaged one")
	// ErrProcesses means that the segment's maximum number of processes are already
	// attached to it: see [Options.Processes].
	ErrProcesses = errors.New("sluice: too many processes on the shared segment")
	// ErrLate is returned by [Adopt], together with a usable segment, when the
	// process had used another default segment before. Values that were taken from
	// the earlier segment are not shared.
	ErrLate = errors.New("sluice: shared.Default was used before the segment was attached")
	// ErrLost is the cause of the context that [Lease.Lead] passes to run, when the
	// lease was lost because it was not renewed in time.
	ErrLost = errors.New("sluice: the lease was lost")
)

// Must returns value, or panics if err is not nil. It is meant for values that a
// program creates when it starts.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
