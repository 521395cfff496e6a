//go:build linux && (amd64 || arm64)

package core

import (
	"net/netip"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// Peer returns where the handler of a connection may leave what it sends to servers, nil: nowhere,
// and RemoteAddrPort.
func (c *conn) Peer() (engine.Holder, netip.AddrPort) {
	if len(c.loop.queue.batches) == 0 {
		return nil, c.RemoteAddrPort()
	}
	return &c.loop.queue, c.RemoteAddrPort()
}

// Hold implements engine.Holder: it adds out to a batch, if a worker is about to look at the
// queue, which sends the batch when the caller waits.
func (q *runQueue) Hold(h *engine.Held, out []byte) bool {
	if len(out) > longestHeld || len(q.batches) == 0 {
		return false
	}
	isAdded := false
	q.mu.Lock()
	if (q.isSpare || q.isGathering) && q.plainly == 0 {
		for _, b := range q.batches {
			if isAdded = b.takeFor(out); isAdded {
				u := b.add(out)
				u.fd, u.client = int32(h.FD), h
				h.Wait()
				b.clients++
				b.state.added()
				break
			}
		}
	}
	q.mu.Unlock()
	return isAdded
}

// beginClients prepares the entries of clients for sending. Those get no descriptor of which
// nothing is sent: a client has recalled them, or its socket is not quiet, whose bytes would be
// taken for the answer.
func (b *batch) beginClients(entries []heldOut) {
	looks, begun := b.looks[:len(entries)], 0
	for i := range entries {
		u := &entries[i]
		looks[i].FD = -1
		switch {
		case u.client == nil:
		case u.client.Begin():
			looks[i].FD = u.fd
			begun++
		default:
			u.client, u.fd = nil, -1
		}
	}
	if begun == 0 {
		return
	}
	sock.LookAt(looks)
	for i := range looks {
		if !looks[i].IsQuiet() {
			u := &entries[i]
			u.client.End(engine.HeldNotQuiet, 0, 0)
			u.client, u.fd = nil, -1
		}
	}
}
