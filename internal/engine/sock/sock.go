// Package sock makes the system calls of engines that drive sockets themselves.
//
// All of its descriptors are non-blocking stream sockets. Calls that a signal
// has interrupted are made again; EAGAIN is an answer like any other. It has
// functions only on the systems that such engines exist for.
package sock
