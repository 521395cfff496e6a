// Package fasthttputil connects clients and servers inside one process. It has
// a listener and a pair of connections that do not use the network. They follow
// the contracts of net.Listener and net.Conn, and are meant for tests and for
// traffic inside a process.
package fasthttputil
