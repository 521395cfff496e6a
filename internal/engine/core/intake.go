//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"slices"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// acceptsInARow is how many connections of a listener a loop accepts before it looks
// after its open connections again. They would starve otherwise where connections
// come faster than they can be accepted.
const acceptsInARow = 64

// An intake accepts connections, on its loop's goroutine.
type intake struct {
	loop     *loop
	servings []*serving // those that may have more connections
	turn     int        // the index of the next connection's loop
	peer     sock.Address

	serving *serving         // from which a batch is being accepted
	accept  func(fd uintptr) // acceptBatch
	isFull  bool             // the batch did not end for lack of connections
}

func (in *intake) init(l *loop) {
	in.loop, in.turn, in.accept = l, l.index, in.acceptBatch
}

// add notes that a listener has connections.
func (in *intake) add(s *serving) {
	if s != nil && s.accepts() && !slices.Contains(in.servings, s) {
		in.servings = append(in.servings, s)
	}
}

// pass accepts a batch from each listener. True: there may be more.
func (in *intake) pass() (again bool) {
	in.servings = slices.DeleteFunc(in.servings, func(s *serving) bool { return !in.take(s) })
	return len(in.servings) > 0
}

// take accepts a batch from s. True: there may be more.
func (in *intake) take(s *serving) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.serving, in.isFull = s, false
	if !s.ended {
		_ = s.control.Control(in.accept) // watch sees that the listener is closed
	}
	in.serving = nil
	return in.isFull
}

func (in *intake) acceptBatch(listener uintptr) {
	sock.KeepNonblocking(int(listener)) // otherwise the loop would wait for connections only
	n := in.serving.waiting(int(listener))
	for range n {
		if !in.acceptOne(int(listener)) {
			return
		}
	}
	in.isFull = n == acceptsInARow
	in.serving.caughtUp = in.serving.caughtUp || !in.isFull
}

// waiting returns how many connections of a listener to accept in a row. Without the Backlog,
// an Accept that finds none would show the end of them: it costs 3 µs, a tenth of a
// connection.
func (s *serving) waiting(listener int) int {
	n := s.driver.source.Backlog(listener)
	s.isTold = s.isTold || n > 0
	if n < 0 || !s.isTold {
		return acceptsInARow
	}
	return min(n, acceptsInARow)
}

// acceptOne accepts a connection and queues it. False: there is none.
func (in *intake) acceptOne(listener int) bool {
	s := in.serving
	fd, errno := s.driver.source.Accept(listener, &in.peer)
	switch errno {
	case 0:
	case syscall.EAGAIN:
		s.caughtUp = true
		return false
	case syscall.ECONNABORTED, syscall.EPROTO, syscall.ECONNRESET:
		return true // the peer has closed the connection
	default:
		err := &net.OpError{Op: "accept", Net: s.network, Addr: s.listener.Addr(), Err: errno}
		if engine.IsTemporary(err) {
			select {
			case s.stalled <- err:
			default: // watch handles an earlier one
			}
		} else {
			s.endLocked(err)
		}
		return false
	}
	if s.network == "tcp" && !(s.inherits && s.caughtUp) {
		s.prepareConn(fd)
	}
	s.accepted = true
	s.arrive()
	if !s.diverts(fd) {
		in.queue(fd)
	}
	return true
}

// queue makes fd a connection of the loop whose turn it is.
func (in *intake) queue(fd int) {
	all := in.loop.driver.loops
	l := all[in.turn%len(all)]
	in.turn++
	l.open.Add(1)
	l.prepare(fd, &in.peer, in.serving, engine.Parcel{})
	if l == in.loop {
		l.ready = append(l.ready, int32(fd))
	} else {
		l.queue.push(int32(fd))
	}
}
