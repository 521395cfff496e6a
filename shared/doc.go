// Package shared keeps state that the worker processes of a prefork server have
// in common: counters, limits, a cache, who is leader. A program with one
// process uses the same API and gets the same results.
//
//	hits := shared.Must(shared.Default().Counter("hits"))
//	logins := shared.Must(shared.Default().RateLimiter("logins", shared.RateLimit{Events: 5, Per: time.Minute}))
//
// Everything lives in one [Segment]: memory that the master creates before the
// first worker starts, of a size that never changes, and that every worker maps.
// [Default] returns it in master and workers alike. A value has a name; whoever
// asks for the name first creates it, all others get the same one.
//
// # What holds for every type
//
// Values are made of 64-bit words that are only read and written atomically.
// There is no pointer in the segment, so nothing that Go allocates can be put
// there; bytes are copied in and out. No operation takes memory from the heap.
// All methods may be called from any goroutine of any process.
//
// A process that dies, even by kill -9 in the middle of an operation, leaves
// nothing stuck and nothing torn. Each type says what becomes of a dead process's
// part. "Dead" means that the supervisor has waited for the process and called
// [Segment.Reap]; a process that is merely slow or stopped is alive, and loses
// nothing that it holds.
//
// # Size
//
// Pages of the segment that nothing has touched take no memory. Values are never
// removed and their sizes are fixed by their first use; when the segment is full,
// creating another one fails with [ErrFull].
package shared
