package websocket

import (
	"context"
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// Ping sends a ping, and returns at the peer's answer. It returns ctx's error if ctx ends
// first, and ErrClosed if the connection ends. Do not call it in a callback, which delays
// the answer. Read takes the answer, too: without callbacks, another goroutine must be in
// Read meanwhile, or for connections of Accept, no message may wait for it.
func (c *Conn) Ping(ctx context.Context) error {
	c.lock().Lock()
	if c.phase != phaseOpen {
		defer c.lock().Unlock()
		return c.endedLocked()
	}
	wait := pingWait{number: c.host.numbers.Add(1), ponged: make(chan struct{})}
	r := c.ensureStateLocked().ensureCallsLocked()
	r.pings = append(r.pings, wait)
	var payload [8]byte
	binary.BigEndian.PutUint64(payload[:], wait.number)
	c.appendFrameLocked(ws.Head{Opcode: ws.OpPing}, payload[:])
	c.lock().Unlock()
	select {
	case <-wait.ponged:
	case <-ctx.Done():
	}
	c.lock().Lock()
	defer c.lock().Unlock()
	select {
	case <-wait.ponged:
	default:
		c.forgetPingLocked(wait.number)
		return ctx.Err()
	}
	if c.phase >= phaseClosed {
		return c.endedLocked()
	}
	return nil
}

// forgetPingLocked removes a ping that no call waits for any more.
func (c *Conn) forgetPingLocked(number uint64) {
	pings := c.guarded.calls.pings
	for i := range pings {
		if pings[i].number == number {
			c.guarded.calls.pings = append(pings[:i:i], pings[i+1:]...)
			return
		}
	}
}

// ponged ends the pings up to the one that payload answers (RFC 6455 section 5.5.3).
func (c *Conn) ponged(payload []byte) {
	if len(payload) != 8 {
		return
	}
	number := binary.BigEndian.Uint64(payload)
	c.lock().Lock()
	defer c.lock().Unlock()
	r := c.guarded.calls
	if r == nil {
		return
	}
	for i := range r.pings {
		if r.pings[i].number == number {
			r.endPingsLocked(i + 1)
			return
		}
	}
}

// endPingsLocked ends the first n pings.
func (r *callState) endPingsLocked(n int) {
	for _, p := range r.pings[:n] {
		close(p.ponged)
	}
	r.pings = r.pings[n:]
}

// add counts a control frame. It returns false if there are too many.
func (n *controls) add() bool {
	second := clock.Nanos() >> 30 // nearly
	if int64(*n)>>32 != second {
		*n = controls(second << 32)
	}
	*n++
	return uint32(*n) <= maxControls
}

// handleControl handles a control frame.
func (s *session) handleControl(p ws.Piece) {
	if p.Opcode == ws.OpClose {
		s.handleClose(p.Payload)
		return
	}
	if !s.controls.add() {
		s.fail(&CloseError{Code: CodePolicy, Reason: "too many control frames"})
		return
	}
	if p.Opcode == ws.OpPong {
		s.conn.ponged(p.Payload)
		return
	}
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	if s.conn.phase == phaseOpen {
		s.out = ws.AppendWhole(s.out, s.host.head(ws.OpPong), p.Payload)
	}
}
