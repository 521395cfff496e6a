package shared

import "errors"

var (
	// ErrFull means that the segment has no room, or no free name, for another
	// value: see [Options.Size].
	ErrFull = errors.New("sluice: the shared segment is full")
	// ErrMismatch means that the name exists with another type or another size.
	ErrMismatch = errors.New("sluice: the shared value has another type or size")
	// ErrName means that a name is empty or longer than [MaxName] bytes.
	ErrName = errors.New("sluice: bad name of a shared value")
	// ErrOption means that an option has a value that cannot be.
	ErrOption = errors.New("sluice: bad option of a shared value")
	// ErrTooLarge means that the bytes are more than the value was made for.
	ErrTooLarge = errors.New("sluice: too large for the shared value")
	// ErrBusy means that a lock was held for too long by a process that is
	// alive, one that was stopped for instance. Nothing was changed.
	ErrBusy = errors.New("sluice: the shared value is locked by another process")
	// ErrCorrupt means that a file or its contents are not a segment of this
	// version.
	ErrCorrupt = errors.New("sluice: not a shared segment, or a damaged one")
	// ErrProcesses means that as many processes as the segment was made for are
	// attached to it: see [Options.Processes].
	ErrProcesses = errors.New("sluice: too many processes on the shared segment")
	// ErrLate comes with a segment that [Adopt] attached after the process had
	// already used another one as its default: values taken from that one are not
	// shared.
	ErrLate = errors.New("sluice: shared.Default was used before the segment was attached")
	// ErrLost is the cause of the context that [Lease.Lead] gives, when the
	// lease was lost because it was not renewed in time.
	ErrLost = errors.New("sluice: the lease was lost")
)

// Must returns value, or panics if there is an error: for values that a program
// makes when it starts.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
