//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"os"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// A Source is a way to wait for many sockets. Packages such as epoll implement it;
// the core calls it. All of its methods may be called concurrently.
//
// A Source tells of changes, once each: it reports input, and then again after
// Recv or Peek has found less than it was given room for; room, and then again after a
// send has returned EAGAIN; connections, and then again after Accept has returned
// EAGAIN, or Backlog was asked. It may report too often, never too rarely. The calls for input and output
// go through the Source so that one that is told of states instead of changes
// (poll(2)) can keep to that.
//
// The descriptors are non-blocking stream sockets. No call but Run waits. Calls
// that a signal has interrupted are made again.
type Source interface {
	// Open returns a Poller. Each loop has one.
	Open() (Poller, error)
	// Accept accepts a connection as a non-blocking descriptor that child processes
	// do not inherit, and writes its peer's address to peer.
	Accept(listener int, peer *sock.Address) (fd int, errno syscall.Errno)
	// Backlog returns how many connections of a TCP listener wait for Accept; -1 if Accept has
	// to show it. Some systems return 0 always.
	Backlog(listener int) int
	// Recv reads into p, which is not empty. 0 bytes and no error are a FIN.
	Recv(fd int, p []byte) (n int, errno syscall.Errno)
	// Peek is Recv, but the bytes stay in the socket.
	Peek(fd int, p []byte) (n int, errno syscall.Errno)
	// Send writes as much of p, which is not empty, as there is room for. If more
	// is set, further output or the FIN follows at once and may share a packet with p.
	Send(fd int, p []byte, more bool) (n int, errno syscall.Errno)
	// SendBuffers writes as much of v as one gathering write takes. It consumes v
	// as net.Buffers does, with the empty buffers before the rest.
	SendBuffers(fd int, v *net.Buffers) (n int64, errno syscall.Errno)
	// SendFile writes as much of size > 0 bytes at offset of f as there is room
	// for. An error comes alone: syscall.EAGAIN, io.EOF if the file has no bytes
	// there, or what ends the connection. It may wait for the disk.
	SendFile(fd int, f *os.File, offset, size int64) (n int, err error)
	// Close closes fd, which may have been added to a Poller. isPrompt says that
	// closing does not wait for the peer (SO_LINGER).
	Close(fd int, isPrompt bool)
}

// A Poller waits for the descriptors that were added to it, until Remove or
// Source.Close. The core adds a descriptor to one Poller at most.
type Poller interface {
	// Run calls pass with the events, as they come, until Close. It also calls
	// pass after every Wake, and soon after pass has returned Again, perhaps
	// without events. pass does not retain events. Run lets other goroutines run
	// between two calls of pass, but for Serve. If pass has returned Again, the goroutines that
	// a look at the network wakes run before the next call, as far as possible.
	//
	// If pass has returned Serve, Run calls serve. begins says that it has waited for events as ever
	// before that pass. While serve runs, another goroutine may call Run, with a serve of its own:
	// the first one then returns Lost, or never, and its Run ends without a further use of the Poller.
	Run(pass func(events []Event) Then, serve func(begins bool) Then)
	// Wake makes Run call pass. It fails after Close.
	Wake() error
	// Close ends Run, and releases what the Poller has. It is called once.
	Close() error
	// Add has Run report the events of fd, a connection or a listener, with token,
	// beginning with fd's present state. If fd was added before, Run reports that
	// state again.
	Add(fd int, token uint64) error
	// Remove ends the events of fd. Run may still report some that were there.
	Remove(fd int)
}

// Then is what a Poller does after a call.
type Then uint8

const (
	Park  Then = iota // wait for events
	Again             // call pass again soon
	Serve             // after pass: call serve; after serve: wait, on the thread, as events come soon
	Lost              // return: another goroutine is in Run
)

// An Event tells what has happened to a descriptor.
type Event struct {
	Token uint64 // of Add
	Flags uint64 // of Input, Output and Gone
}

// The flags of an Event. An error of the connection is all three.
const (
	Input  = flagInput            // there may be input, or connections to accept
	Output = flagOutput           // there may be room to write
	Gone   = flagGone | flagInput // the peer sends no more
)

// tokenOf returns the token of a connection. A listener's token is the index of its
// serving: no connection has the generation 0.
func tokenOf(fd int, gen uint32) uint64 { return uint64(gen)<<generationShift | uint64(uint32(fd)) }
