// Package shared holds state that the worker processes of a prefork server share:
// counters, rate limits, caches, leases. A program with one process uses the same
// API and gets the same results.
//
//	hits := shared.Must(shared.Default().Counter("hits"))
//	logins := shared.Must(shared.Default().RateLimiter("logins", shared.RateLimit{Events: 5, Per: time.Minute}))
//
// All values are in one [Segment]: memory of a fixed size that the master creates
// before the first worker starts, and that every worker maps. [Default] returns it
// in the master and in the workers. A value has a name. The first process that
// asks for a name creates the value; all others get the same value.
//
// # What holds for every type
//
// Values consist of 64-bit words, which are only read and written atomically. The
// segment contains no pointers, so it cannot hold objects that Go allocates; bytes
// are copied in and out. All methods may be called from any goroutine of any
// process. No operation allocates, except to grow the caller's dst, to return a
// new object, to wait, or to rotate ticket keys.
//
// A process may die at any time, even by kill -9 in the middle of an operation.
// No lock stays held, and no value stays half written. The crash rule of each type
// says what happens to a dead process's part. "Dead" means that the supervisor has
// waited for the process and called [Segment.Reap]. A process that is slow or
// stopped is alive, and keeps everything that it holds.
//
// # Size
//
// Pages of the segment that were never used take no memory. Values are never
// removed, and their first use fixes their sizes. When the segment is full,
// creating another value fails with [ErrFull].
package shared
