// Package core is the event engine: the life of connections, over a Source
// (source.go), which waits for them and moves their bytes. Package epoll is a
// Source. A connection that waits for a request holds no goroutine, no buffer and
// no protocol. The package has code for Linux only, on amd64 and arm64.
//
// The parts:
//
//   - A loop (loop.go) is a goroutine that runs a Poller of the Source. It claims
//     the connections that have events and puts them into its run queue. Where there is
//     little to do, it serves them itself (direct.go).
//   - Workers (worker.go, queue.go) take connections from the run queue, read, run
//     the protocol, write, and release the connection (drive.go). Handlers may
//     block, so a worker that takes a connection while more are queued makes one
//     spare worker runnable.
//   - A waiting connection is a slot (slot.go, table.go), found by its descriptor.
//     The slot takes 64 bytes and contains no pointer. Beside it is a pointer to
//     the connection's conn, usually nil, so a waiting connection takes 72 bytes.
//     A conn (conn.go) holds what a connection needs while a worker serves it, or
//     in the middle of a request. A TLS connection needs further memory.
//   - The deadline sweep (sweep.go) visits the slots and finds deadlines that have
//     passed.
//   - The loops accept from listeners that yield a descriptor (accept.go, intake.go). The
//     fallback engine serves all other connections.
//
// # Ownership
//
// A slot's word says who owns the connection. Ownership changes only by
// compare-and-swap; ARCHITECTURE.md has a diagram. The goroutine that changes the word from
// idle to busy owns the connection, and must queue it.
//
// # Parking
//
// A worker that has nothing left to do parks the connection (park.go), in this order:
//
//	step                      must precede           because
//	1 read until empty        add                    add reports the present state once more; it costs a
//	                                                 system call that connections of one request save
//	2 add to the Poller       release                an event after the last read must find the slot
//	3 Pause                   the next step          it says whether the connection is between requests,
//	                                                 and so whether it may sleep, be closed or handed over
//	4 look for input          Sleep                  a protocol that sleeps for an event that is there
//	                                                 would be woken at once
//	5 Sleep, Memo into slot   release                the next owner wakes the protocol from it
//	6 deadline into slot      release                the sweep reads it as soon as the slot is idle
//	7 buffers to the worker   release                the next owner is a worker with its own
//	8 conn shown, or hidden   release                the next owner takes it, or binds another
//	9 release: busy to idle   everything below       it fails if an event came since step 4: the worker
//	                                                 still owns the connection and serves it again
//	10 schedule the sweep     -                      after release: a round before it has skipped the
//	                                                 busy slot
//	11 look for Shutdown      -                      after release: Shutdown reaches StageShutDown and then
//	                                                 claims idle slots, so one of the two sees the other
//
// After step 9 another worker may own the connection: the first one uses only what
// it has copied, and the conn if it was hidden.
package core
