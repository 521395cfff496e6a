// Package epoll is the event engine: connections wait in an epoll instance and
// hold no goroutine, no buffer and no protocol while they do. It runs on Linux;
// elsewhere New returns an error.
//
// Who does what:
//
//   - A loop (loop.go) is a goroutine inside one RawConn.Read of the epoll
//     descriptor, which Go's own poller watches. It claims the connections that
//     have events, puts them into its run queue and parks after every pass, so
//     that nothing else in the process starves.
//   - Workers (worker.go, queue.go) take connections from the run queue, read,
//     run the protocol, write, and let go. Handlers may block: whoever takes
//     work while there is more makes one spare worker runnable.
//   - A connection that waits is a slot (slot.go, table.go): 64 bytes without a
//     pointer, found by its descriptor. What it needs beyond that while it is at
//     work, or in the middle of a request, is a conn (conn.go).
//   - The deadline sweep (sweep.go) goes over the slots and finds deadlines that passed.
//   - Listeners that yield a descriptor are accepted from by the loops
//     (accept.go). Every other connection is the fallback engine's.
//
// A slot's word says who owns the connection. It changes hands by compare and
// swap only; ARCHITECTURE.md has the picture.
package epoll
