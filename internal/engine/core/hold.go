//go:build linux && (amd64 || arm64)

package core

import (
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// Holder returns where the handler of a connection may leave what it sends to servers; nil:
// nowhere.
func (c *conn) Holder() engine.Holder {
	if len(c.loop.queue.batches) == 0 {
		return nil
	}
	return &c.loop.queue
}

// Hold implements engine.Holder: it adds out to a batch, if a worker is about to look at the
// queue, which sends the batch when the caller waits.
func (q *runQueue) Hold(h *engine.Held, out []byte) bool {
	if len(out) > longestHeld || len(q.batches) == 0 {
		return false
	}
	u := heldOut{fd: int32(h.FD), client: h}
	isAdded := false
	q.mu.Lock()
	if (q.isSpare || q.isGathering) && q.plainly == 0 {
		for _, b := range q.batches {
			if isAdded = b.add(&u, out); isAdded {
				break
			}
		}
	}
	q.mu.Unlock()
	return isAdded
}

// beginLocked prepares an entry for sending. It returns false if nothing is sent: a client has
// recalled it, or the socket of a client is not quiet, whose bytes would be taken for the
// answer.
func (u *heldOut) beginLocked() bool {
	h := u.client
	if h == nil {
		return true
	}
	if h.Begin() {
		if sock.IsQuiet(int(u.fd)) {
			return true
		}
		h.End(engine.HeldNotQuiet, 0, 0)
	}
	u.client, u.fd = nil, -1
	return false
}
