// Package fasthttputil connects clients and servers inside one process: a
// listener and a pair of connections that never touch the network. Both keep
// the net.Listener and net.Conn contracts, so they serve tests and in-process
// traffic alike.
package fasthttputil
