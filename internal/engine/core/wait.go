//go:build linux && (amd64 || arm64)

package core

import (
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Waiting during a Run: a goroutine of the handler waits for its socket. One
// goroutine may wait for input while another waits for room.

// signals are told when a wait may be over. A spurious signal does no harm: it may have been sent
// for an earlier connection of the conn.
type signals struct{ input, output signal }

// A signal ends the waits of one direction, of which there is one at a time.
type signal struct {
	told  chan struct{} // buffered
	timer *time.Timer   // stopped between waits; nil: not made yet
}

// expiresAt returns a channel that receives at limit, unless timer is stopped before.
func (s *signal) expiresAt(limit int64) <-chan time.Time {
	d := time.Duration(limit - clock.Nanos())
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	return s.timer.C
}

// waiters returns c.signals, and makes it if it is nil.
func (c *conn) waiters() *signals {
	s := c.signals.Load()
	if s == nil {
		made := &signals{signal{told: make(chan struct{}, 1)}, signal{told: make(chan struct{}, 1)}}
		if c.signals.CompareAndSwap(nil, made) {
			return made
		}
		s = c.signals.Load()
	}
	return s
}

// signal ends the waits that woken names.
func (c *conn) signal(woken uint64) {
	s := c.signals.Load()
	if s == nil {
		return
	}
	if woken&flagReadWait != 0 {
		s.input.tell()
	}
	if woken&flagWriteWait != 0 {
		s.output.tell()
	}
}

func (s *signal) tell() {
	select {
	case s.told <- struct{}{}:
	default:
	}
}

// awaitInput waits until there may be input or the read deadline has passed.
func (c *conn) awaitInput() error {
	limit := c.readDeadline()
	switch {
	case c.tlsConn != nil && c.tlsConn.handshakeBy != 0:
		limit = c.tlsConn.handshakeBy
	case c.run != nil && c.run.blocking != nil:
		limit = c.run.blocking.ReadLimit(limit)
	}
	err := c.await(flagReadWait, flagInput, &c.waiters().input, limit)
	if err == nil && c.run != nil && c.run.blocking != nil && c.run.blocking.IsOver() {
		return os.ErrDeadlineExceeded // what is there now is the next request
	}
	return err
}

// awaitRoom waits until there may be room to write or limit has passed.
func (c *conn) awaitRoom(limit int64) error {
	switch {
	case c.tlsConn != nil && c.tlsConn.handshakeBy != 0:
		limit = c.tlsConn.handshakeBy
	case c.run != nil && c.run.blocking != nil:
		limit = c.run.blocking.WriteLimit(limit)
	}
	err := c.await(flagWriteWait, flagOutput, &c.waiters().output, limit)
	c.isStuck = err == os.ErrDeadlineExceeded
	return err
}

// await waits for the event whose flag is event. wait is the flag that says so.
// It may return early; the caller tries again.
func (c *conn) await(wait, event uint64, s *signal, limit int64) error {
	if limit != 0 && clock.Nanos() >= limit {
		return os.ErrDeadlineExceeded
	}
	c.show()
	if err := c.add(); err != nil {
		return err
	}
	if happened := c.slot().beginWait(wait, event|flagKill); happened != 0 {
		if happened&flagKill != 0 {
			return c.driver.killCause()
		}
		return nil
	}
	var expired <-chan time.Time
	if limit != 0 {
		expired = s.expiresAt(limit)
		defer s.timer.Stop()
	}
	select {
	case <-s.told:
		c.slot().take(wait)
		return nil // or woken in order to look at the limit again
	case <-expired:
		c.slot().take(wait)
		return os.ErrDeadlineExceeded
	}
}

// beginWait sets wait, unless one of events has happened; these are returned,
// and cleared but for flagKill.
func (s *slot) beginWait(wait, events uint64) (happened uint64) {
	for {
		word := s.word.Load()
		if happened = word & events; happened != 0 {
			s.take(happened &^ flagKill)
			return happened
		}
		if s.word.CompareAndSwap(word, word|wait) {
			return 0
		}
	}
}

// add adds the connection to its loop's poller, if it has not been added.
func (c *conn) add() error {
	s := c.slot()
	if s.has(flagAdded) {
		return nil
	}
	s.set(flagAdded)
	err := c.loop.poller.Add(c.fd, tokenOf(c.fd, c.gen))
	if err != nil {
		s.take(flagAdded)
	}
	return err
}
