// Package epoll is the event engine. Connections wait in an epoll instance (see
// epoll(7)). A connection that waits for a request holds no goroutine, no buffer
// and no protocol. The package runs on Linux, on amd64 and arm64; elsewhere New
// returns an error.
//
// The parts:
//
//   - A loop (loop.go) is a goroutine inside one RawConn.Read of the epoll
//     descriptor, which Go's own poller watches. It claims the connections that
//     have events and puts them into its run queue. It parks after every pass, so
//     that no other goroutine of the process starves.
//   - Workers (worker.go, queue.go) take connections from the run queue, read, run
//     the protocol, write, and release the connection. Handlers may block, so a
//     worker that takes a connection while more are queued makes one spare worker
//     runnable.
//   - A waiting connection is a slot (slot.go, table.go), found by its descriptor.
//     The slot takes 64 bytes and contains no pointer. Beside it is a pointer to
//     the connection's conn, usually nil, so a waiting connection takes 72 bytes.
//     A conn (conn.go) holds what a connection needs while a worker serves it, or
//     in the middle of a request. A TLS connection needs further memory.
//   - The deadline sweep (sweep.go) visits the slots and finds deadlines that have
//     passed.
//   - The loops accept from listeners that yield a descriptor (accept.go). The
//     fallback engine serves all other connections.
//
// A slot's word says who owns the connection. Ownership changes only by
// compare-and-swap; ARCHITECTURE.md has a diagram.
package epoll
