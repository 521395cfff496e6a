package tcp

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// senderState is the state of a Sender.
type senderState uint8

const (
	senderOpen    senderState = iota
	senderClosing             // accepted data is sent, then the connection is closed
	senderClosed
)

// A Sender writes to a connection from outside its callbacks. Any number of
// goroutines may use it, also after the connection's end: then its methods return
// ErrClosed. Messages of one goroutine arrive in order. A message is never
// interleaved with another one or with a reply.
//
// At most Server.MaxPending bytes wait in a Sender, so a slow peer slows its
// senders down. A send succeeds when the Sender has accepted the message; this does
// not mean that the peer has received it.
type Sender struct {
	prompter   engine.Prompter
	acceptor   *acceptor
	target     engine.Target // for Broadcast; zero: there is none
	maxPending int
	local      net.Addr
	remote     net.Addr

	mu sync.Mutex
	// pending holds the accepted messages, in the order of arrival. While it is not
	// nil, a call of Prompted by the engine is due.
	pending *buf.Buffer
	waiting []*delivery // messages that wait for room, in the order of arrival
	done    chan struct{}
	state   senderState
}

// A delivery is a message that waits for room.
type delivery struct {
	message  []byte
	accepted chan error // gets one value
}

// Send accepts a copy of p. It waits while there is not enough room; see
// Server.MaxPending. A message larger than MaxPending waits until no other message
// is pending. Do not call Send in a callback of the same connection, because it
// could wait for ever: write to the Conn there, or use TrySend.
func (s *Sender) Send(p []byte) error { return s.SendContext(context.Background(), p) }

// SendContext is Send with a context. If ctx ends before p is accepted, it returns
// ctx's error and sends nothing of p.
func (s *Sender) SendContext(ctx context.Context, p []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := s.offer(p, true)
	if d == nil {
		return err
	}
	select {
	case err = <-d.accepted:
		return err
	case <-ctx.Done():
	}
	if s.withdraw(d) {
		return ctx.Err()
	}
	return <-d.accepted
}

// TrySend is Send, but returns ErrFull where Send would wait. It may be called
// anywhere, including in callbacks.
func (s *Sender) TrySend(p []byte) error {
	_, err := s.offer(p, false)
	return err
}

// Close closes the connection after everything accepted so far was sent. It does
// not wait. Calls of Send that wait for room return ErrClosed. A second call
// returns ErrClosed.
func (s *Sender) Close() error {
	s.mu.Lock()
	if s.state != senderOpen {
		s.mu.Unlock()
		return ErrClosed
	}
	s.state = senderClosing
	s.refuseWaitingLocked()
	s.mu.Unlock()
	s.prompter.Prompt()
	return nil
}

// Done returns a channel that is closed when the connection has ended.
func (s *Sender) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.state == senderClosed {
			close(s.done)
		}
	}
	return s.done
}

// RemoteAddr returns the peer's address.
func (s *Sender) RemoteAddr() net.Addr { return s.remote }

// LocalAddr returns the server's address on the connection.
func (s *Sender) LocalAddr() net.Addr { return s.local }

// offer accepts p if there is room. Otherwise, if waits is set, it returns a
// delivery that waits for room.
func (s *Sender) offer(p []byte, waits bool) (*delivery, error) {
	s.mu.Lock()
	if s.state != senderOpen {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if len(s.waiting) > 0 || !s.hasRoomLocked(len(p)) {
		var d *delivery
		if waits {
			d = &delivery{message: p, accepted: make(chan error, 1)}
			s.waiting = append(s.waiting, d)
		}
		s.mu.Unlock()
		return d, ErrFull
	}
	isFirst := s.pending == nil
	s.acceptLocked(p)
	s.mu.Unlock()
	if isFirst {
		s.prompter.Prompt()
	}
	return nil, nil
}

// hasRoomLocked reports whether a message of size bytes may be accepted; mu is held.
func (s *Sender) hasRoomLocked(size int) bool {
	return s.pending == nil || len(s.pending.B)+size <= s.maxPending
}

// acceptLocked takes a copy of p; mu is held.
func (s *Sender) acceptLocked(p []byte) {
	if s.pending == nil {
		s.pending = buf.Get(len(p))
	}
	s.pending.B = append(s.pending.B, p...)
}

// withdraw removes d from the queue. It returns false if d was already accepted or
// refused.
func (s *Sender) withdraw(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, d)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.acceptWaitingLocked() // d may have blocked smaller messages after it
	return true
}

// drain appends the accepted messages to out, and accepts messages that waited for
// room. isClosing tells that no further message will follow.
func (s *Sender) drain(out []byte) (_ []byte, isClosing bool) {
	s.mu.Lock()
	out = s.takeLocked(out)
	s.acceptWaitingLocked()
	again := s.pending != nil
	isClosing = s.state == senderClosing
	s.mu.Unlock()
	if again {
		s.prompter.Prompt()
	}
	return out, isClosing
}

// end appends the accepted messages to out, and closes s.
func (s *Sender) end(out []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out = s.takeLocked(out)
	s.refuseWaitingLocked()
	if s.state != senderClosed && s.done != nil {
		close(s.done)
	}
	s.state = senderClosed
	return out
}

// takeLocked moves the accepted messages to out; mu is held.
func (s *Sender) takeLocked(out []byte) []byte {
	if s.pending != nil {
		out = append(out, s.pending.B...)
		s.pending.ReleaseHeld()
		s.pending = nil
	}
	return out
}

// acceptWaitingLocked accepts waiting messages in their order, while there is room; mu
// is held.
func (s *Sender) acceptWaitingLocked() {
	n := 0
	for ; n < len(s.waiting) && s.hasRoomLocked(len(s.waiting[n].message)); n++ {
		s.acceptLocked(s.waiting[n].message)
		s.waiting[n].accepted <- nil
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
}

// refuseWaitingLocked refuses all waiting messages; mu is held.
func (s *Sender) refuseWaitingLocked() {
	for _, d := range s.waiting {
		d.accepted <- ErrClosed
	}
	s.waiting = nil
}
