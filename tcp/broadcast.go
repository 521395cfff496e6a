package tcp

import "github.com/sluicehttp/sluice/internal/engine"

// castBatch is how many connections Broadcast sends to at a time.
const castBatch = 256

// Broadcast sends p to many connections, and returns to how many it was sent, or waits to be
// sent. To those that are idle it is sent on the caller's goroutine, without a copy or an
// allocation. For the others it is TrySend: one that is slow, or has ended, is passed over.
// The messages of one goroutine arrive in order. p must not change until Broadcast returns.
func Broadcast(senders []*Sender, p []byte) (accepted int) {
	b := broadcastPool.Get().(*broadcast)
	for len(senders) > 0 {
		n := min(len(senders), castBatch)
		accepted += b.send(senders[:n], p)
		senders = senders[n:]
	}
	releaseBroadcast(b)
	return accepted
}

// A broadcast is a Broadcast that is running.
type broadcast struct {
	senders [castBatch]*Sender // that may be idle, of one engine
	targets [castBatch]engine.Target
	count   int
	message []byte
	missed  func(i int) // b.miss
	sent    int
}

// send sends p to a batch.
func (b *broadcast) send(senders []*Sender, p []byte) (accepted int) {
	b.message, b.sent = p, 0
	for _, s := range senders {
		if b.count > 0 && b.senders[0].acceptor != s.acceptor {
			b.cast()
		}
		if s.isIdle() {
			b.senders[b.count], b.targets[b.count] = s, s.target
			b.count++
		} else if s.TrySend(p) == nil {
			b.sent++
		}
	}
	b.cast()
	b.message = nil
	return b.sent
}

// cast sends to the senders that were collected.
func (b *broadcast) cast() {
	if b.count == 0 {
		return
	}
	b.sent += b.count
	b.senders[0].acceptor.cast(b.targets[:b.count], b.message, b.missed)
	b.count = 0
}

// miss is called for the senders whose connection has missed the message.
func (b *broadcast) miss(i int) {
	if b.senders[i].TrySend(b.message) != nil {
		b.sent--
	}
}

// isIdle reports whether the queue of s is empty, so that a message may be sent at once.
func (s *Sender) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == senderOpen && s.pending == nil && s.target != engine.Target{}
}

// cast sends a message on the engine of a's connections; see engine.Engine.
func (a *acceptor) cast(targets []engine.Target, message []byte, missed func(i int)) {
	if a.upgraded != nil {
		a.upgraded.Cast(targets, message, missed)
		return
	}
	a.engine.Cast(targets, message, missed)
}
