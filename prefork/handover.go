package prefork

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// handOverInterval is how often a worker that is being replaced looks for
	// connections that are now between requests.
	handOverInterval = 2 * time.Millisecond
	// handOverBatch is how many connections are taken from the server at a time.
	// It is bounded because no worker serves a connection between the taking and
	// the sending.
	handOverBatch = 32
	// handOverPause is how long both workers do other work after a batch. Without it, the
	// next worker has thousands of connections to take, each of which waits for its turn.
	handOverPause = time.Millisecond
	// fullPause replaces handOverInterval after a batch of which nothing was taken.
	fullPause = 50 * time.Millisecond
	// postPatience bounds the wait for room in an inbox. Its reader receives a
	// connection within microseconds.
	postPatience = time.Second
)

// receive serves the connections that other workers post.
func (w *worker) receive() {
	if w.prefork.server == nil || w.link.Slots() == 0 {
		return
	}
	w.board.page.Set(shared.StateKinds, w.prefork.server.Control().StateKinds())
	w.board.page.Set(shared.Room, roomFor(0))
	w.link.Receive(w.adoptConn)
}

// adoptConn serves a connection that another worker posted, and tells that one whether it
// does. fd is -1 if this process has no descriptor for the connection.
func (w *worker) adoptConn(fd int, parcel []byte) {
	l, p, ok := parseParcel(parcel)
	defer clear(p.TLS) // the server has copied it
	var err error
	switch {
	case fd < 0:
		err = errNoDescriptor
	case ok:
		err = w.prefork.server.Control().AdoptSocket(fd, p)
	default:
		err = os.NewFile(uintptr(fd), "connection").Close()
		w.logf("a connection came with a damaged parcel")
	}
	if err == errNoDescriptor || errors.Is(err, syscall.EMFILE) {
		w.board.fill()
	}
	if l.announcedTo != 0 {
		w.board.arrived(l.announcedTo)
	}
	if isHeard := w.board.answer(l, err == nil); err != nil && !isHeard {
		w.logf("a connection of another worker is lost: %v", err)
	}
}

// handOver passes the connections that are between requests to the successor or
// to a sibling, and the other connections as soon as they are answered. It returns
// when none is left or ctx ends. It is invisible to clients. The result is the
// number of connections passed.
//
// Some connections can never be handed over, and a busy client of HTTP/2 may always have a
// request open, so connections are told to end when half of the time is over.
func (w *worker) handOver(ctx context.Context) int {
	s := w.prefork.server
	if s == nil || w.isTLS && !w.movesTLS() || w.link.Slots() == 0 {
		return 0
	}
	half := time.AfterFunc(timeLeft(ctx)/2, s.Control().CloseOnNextResponse)
	defer half.Stop()
	count := 0
	poll(ctx, handOverInterval, func() bool {
		for {
			b := w.newBatch()
			given := s.Control().HandOver(handOverBatch, func(c net.Conn, p sluice.Parcel) { w.send(ctx, b, c, p) })
			taken := w.settle(ctx, b)
			count += taken
			if given > 0 && taken == 0 {
				time.Sleep(min(fullPause, timeLeft(ctx)))
			}
			if given < handOverBatch || taken == 0 {
				break
			}
			time.Sleep(handOverPause)
		}
		return s.GetOpenConnectionsCount() == 0
	})
	return count
}

// movesTLS reports whether TLS connections may move to other workers.
func (w *worker) movesTLS() bool {
	return w.prefork.server.EngineInfo(nil).CompactTLS
}

// send posts a connection. If that fails, this worker serves it until it closes its
// remaining connections.
func (w *worker) send(ctx context.Context, b *batch, c net.Conn, p sluice.Parcel) {
	if w.post(ctx, b, c, p) {
		return
	}
	if !w.isUnderstood(p) { // it ends with GOAWAY, or 1012
		w.prefork.server.Control().CloseOnNextResponse()
	}
	w.serveAgain(c, p)
}

// serveAgain serves a connection that no other worker has taken.
func (w *worker) serveAgain(c net.Conn, p sluice.Parcel) {
	defer clear(p.TLS) // the server has copied it
	if err := w.prefork.server.Control().AdoptConn(c, p); err != nil {
		w.logf("a connection is lost: %v", err)
	}
}

// post sends a connection to the inbox of the worker's own slot, which the
// successor reads. If that fails, it sends it to a sibling. It gives up when ctx
// ends. A connection that was sent belongs to b.
func (w *worker) post(ctx context.Context, b *batch, c net.Conn, p sluice.Parcel) bool {
	own := w.link.Slot()
	if ctx.Err() == nil && w.successorTakes(p) && w.postToSuccessor(b, c, p) {
		return true
	}
	for to := range w.board.segment.Others() {
		slot := int(to.Get(shared.Slot))
		if ctx.Err() != nil || slot == own || !w.takes(to, p) || !w.board.announce(to) {
			continue
		}
		if w.postTo(slot, c, b.label(to, len(b.sent)), p, 0) {
			b.add(c, p, to.PID())
			return true
		}
		to.Sub(shared.Inbound, 1)
	}
	return false
}

// postToSuccessor sends a connection to the inbox of the worker's own slot. The successor is
// told of it, so that it gets no more than it has room for.
func (w *worker) postToSuccessor(b *batch, c net.Conn, p sluice.Parcel) bool {
	own := w.link.Slot()
	for page := range w.board.segment.Others() {
		if int(page.Get(shared.Slot)) != own || shared.State(page.Get(shared.ProcessState)) != shared.Ready {
			continue
		}
		if !w.board.announce(page) {
			return false
		}
		if w.postTo(own, c, b.label(page, len(b.sent)), p, postPatience) {
			b.add(c, p, page.PID())
			return true
		}
		page.Sub(shared.Inbound, 1)
		return false
	}
	if !w.postTo(own, c, label{}, p, postPatience) {
		return false
	}
	b.add(c, p, 0)
	return true
}

// takes reports whether the worker at page understands p.
func (w *worker) takes(page *shared.Page, p sluice.Parcel) bool {
	kind := p.Kind()
	return page.Get(shared.StateKinds)&kind == kind
}

// isUnderstood reports whether any worker that serves understands p.
func (w *worker) isUnderstood(p sluice.Parcel) bool {
	if p.Kind() == 0 {
		return true
	}
	for page := range w.board.segment.Others() {
		if shared.State(page.Get(shared.ProcessState)) == shared.Ready && w.takes(page, p) {
			return true
		}
	}
	return false
}

// successorTakes reports whether those understand p that may read the inbox of the worker's
// own slot: later workers of the slot.
func (w *worker) successorTakes(p sluice.Parcel) bool {
	if p.Kind() == 0 {
		return true
	}
	found := false
	for page := range w.board.segment.Others() {
		if int(page.Get(shared.Slot)) != w.link.Slot() || page.Get(shared.Generation) <= w.board.page.Get(shared.Generation) {
			continue
		}
		if found = true; !w.takes(page, p) {
			return false
		}
	}
	return found
}

// postTo sends a connection to one slot.
func (w *worker) postTo(slot int, c net.Conn, l label, p sluice.Parcel, wait time.Duration) bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	sent, parcel := false, appendParcel(nil, l, p)
	defer clear(parcel)
	err = raw.Control(func(fd uintptr) {
		sent = w.link.Post(slot, int(fd), parcel, wait) == nil
	})
	return err == nil && sent
}
