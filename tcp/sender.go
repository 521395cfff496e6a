package tcp

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// senderState says what a Sender still does.
type senderState uint8

const (
	senderOpen    senderState = iota
	senderClosing             // what was accepted is sent, then the connection closed
	senderClosed
)

// A Sender writes to a connection from outside its callbacks. It may be used by
// any number of goroutines, for as long as they like: after the connection's
// end its methods return ErrClosed. What one goroutine sends arrives in order,
// and no message is cut by another, or by a reply.
//
// The peer's reading sets the pace: at most Server.MaxPending bytes wait in a
// Sender. A message counts as sent when the Sender has accepted it; that the
// peer got it, only the peer can say.
type Sender struct {
	prompter   engine.Prompter
	maxPending int
	local      net.Addr
	remote     net.Addr

	mu sync.Mutex
	// pending is what was accepted, in the order of arrival. While it is not
	// nil, the engine is going to call Prompted.
	pending *buf.Buffer
	waiting []*delivery // what found no room, in the order of arrival
	done    chan struct{}
	state   senderState
}

// A delivery is a message that waits for room.
type delivery struct {
	message  []byte
	accepted chan error // gets one value
}

// Send accepts p, of which it takes a copy, and waits while too much is waiting
// already. A message larger than Server.MaxPending waits until it is the only
// one. It must not be called in a callback of the same connection, where it
// would wait for itself: that writes to its Conn, or uses TrySend.
func (s *Sender) Send(p []byte) error { return s.SendContext(context.Background(), p) }

// SendContext is Send that gives up, with ctx's error, when ctx ends. Then
// nothing of p is sent.
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

// TrySend is Send that returns ErrFull instead of waiting. It may be called
// anywhere, also in callbacks.
func (s *Sender) TrySend(p []byte) error {
	_, err := s.offer(p, false)
	return err
}

// Close has the connection closed when what was accepted so far is sent.
func (s *Sender) Close() error {
	s.mu.Lock()
	if s.state != senderOpen {
		s.mu.Unlock()
		return ErrClosed
	}
	s.state = senderClosing
	s.refuseWaiting()
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

// offer accepts p if there is room. If not, and if waits is set, it returns a
// delivery that will be accepted.
func (s *Sender) offer(p []byte, waits bool) (*delivery, error) {
	s.mu.Lock()
	if s.state != senderOpen {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if len(s.waiting) > 0 || !s.hasRoom(len(p)) {
		var d *delivery
		if waits {
			d = &delivery{message: p, accepted: make(chan error, 1)}
			s.waiting = append(s.waiting, d)
		}
		s.mu.Unlock()
		return d, ErrFull
	}
	isFirst := s.pending == nil
	s.accept(p)
	s.mu.Unlock()
	if isFirst {
		s.prompter.Prompt()
	}
	return nil, nil
}

// hasRoom tells whether a message of size bytes may be accepted; mu is held.
func (s *Sender) hasRoom(size int) bool {
	return s.pending == nil || len(s.pending.B)+size <= s.maxPending
}

// accept takes a copy of p; mu is held.
func (s *Sender) accept(p []byte) {
	if s.pending == nil {
		s.pending = buf.Get(len(p))
	}
	s.pending.B = append(s.pending.B, p...)
}

// withdraw takes d out of the queue. False: it has been accepted, or refused.
func (s *Sender) withdraw(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, d)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.acceptWaiting() // what was too large stood in the way of smaller ones
	return true
}

// drain appends what was accepted to out, and accepts what has waited for the
// room. isClosing says that nothing will follow.
func (s *Sender) drain(out []byte) (_ []byte, isClosing bool) {
	s.mu.Lock()
	out = s.take(out)
	s.acceptWaiting()
	again := s.pending != nil
	isClosing = s.state == senderClosing
	s.mu.Unlock()
	if again {
		s.prompter.Prompt()
	}
	return out, isClosing
}

// end appends what was accepted to out, and closes s.
func (s *Sender) end(out []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out = s.take(out)
	s.refuseWaiting()
	if s.state != senderClosed && s.done != nil {
		close(s.done)
	}
	s.state = senderClosed
	return out
}

// take moves what was accepted to out; mu is held.
func (s *Sender) take(out []byte) []byte {
	if s.pending != nil {
		out = append(out, s.pending.B...)
		s.pending.ReleaseHeld()
		s.pending = nil
	}
	return out
}

// acceptWaiting accepts the first of those that wait, while there is room; mu
// is held.
func (s *Sender) acceptWaiting() {
	n := 0
	for ; n < len(s.waiting) && s.hasRoom(len(s.waiting[n].message)); n++ {
		s.accept(s.waiting[n].message)
		s.waiting[n].accepted <- nil
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
}

// refuseWaiting ends the wait of all that do; mu is held.
func (s *Sender) refuseWaiting() {
	for _, d := range s.waiting {
		d.accepted <- ErrClosed
	}
	s.waiting = nil
}
