package prefork

import (
	"context"
	"encoding/binary"
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
	// postPatience bounds the wait for room in an inbox. Its reader receives a
	// connection within microseconds.
	postPatience = time.Second
)

// A connection travels from one worker to another with a parcel: the id of the
// process that counts it as Inbound (0: none), in 4 bytes, little-endian; then, if
// parcelHasState is set in these, the size of the state in 4 bytes and the state; and
// the input that was read from it and not used. A worker sends state only to those
// that have published the same version of it.
const (
	parcelHead     = 4
	parcelHasState = 1 << 31
)

// appendParcel appends a connection's parcel to dst.
func appendParcel(dst []byte, announcedTo int, p sluice.Parcel) []byte {
	if len(p.State) == 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(announcedTo))
		return append(dst, p.Leftover...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(announcedTo)|parcelHasState)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.State)))
	return append(append(dst, p.State...), p.Leftover...)
}

// parseParcel is the opposite of appendParcel.
func parseParcel(in []byte) (announcedTo int, p sluice.Parcel, ok bool) {
	if len(in) < parcelHead {
		return 0, p, false
	}
	head, in := binary.LittleEndian.Uint32(in), in[parcelHead:]
	if head&parcelHasState == 0 {
		return int(head), sluice.Parcel{Leftover: in}, true
	}
	announcedTo = int(head &^ parcelHasState)
	if len(in) < parcelHead {
		return announcedTo, p, false
	}
	size := binary.LittleEndian.Uint32(in)
	if in = in[parcelHead:]; uint64(size) > uint64(len(in)) {
		return announcedTo, p, false
	}
	return announcedTo, sluice.Parcel{State: in[:size], Leftover: in[size:]}, true
}

// receive serves the connections that other workers post.
func (w *worker) receive() {
	if w.prefork.server == nil || w.link.Slots() == 0 {
		return
	}
	w.board.page.Set(shared.StateKinds, w.prefork.server.Control().StateKinds())
	w.board.page.Set(shared.Room, roomFor())
	w.link.Receive(w.adoptConn)
}

// adoptConn serves a connection that another worker posted.
func (w *worker) adoptConn(fd int, parcel []byte) {
	announcedTo, p, ok := parseParcel(parcel)
	var err error
	if ok {
		err = w.prefork.server.Control().AdoptSocket(fd, p)
	} else {
		err = os.NewFile(uintptr(fd), "connection").Close()
		w.logf("a connection came with a damaged parcel")
	}
	if announcedTo != 0 {
		w.board.arrived(announcedTo)
	}
	if err != nil {
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
	if s == nil || w.isTLS || w.link.Slots() == 0 {
		return 0
	}
	half := time.AfterFunc(timeLeft(ctx)/2, s.Control().CloseOnNextResponse)
	defer half.Stop()
	count := 0
	take := func(c net.Conn, p sluice.Parcel) {
		if w.post(ctx, c, p) {
			count++
			c.Close() // this process's descriptor
			return
		}
		if len(p.State) > 0 { // no worker understands it; it ends with GOAWAY, or 1012
			s.Control().CloseOnNextResponse()
		}
		// This worker serves it until it closes its remaining connections.
		if err := s.Control().AdoptConn(c, p); err != nil {
			w.logf("a connection is lost: %v", err)
		}
	}
	poll(ctx, handOverInterval, func() bool {
		for before := count; s.Control().HandOver(handOverBatch, take) == handOverBatch && count > before; before = count {
			time.Sleep(handOverPause)
		}
		return s.GetOpenConnectionsCount() == 0
	})
	return count
}

// post sends a connection to the inbox of the worker's own slot, which the
// successor reads. If that fails, it sends it to a sibling. It gives up when ctx
// ends.
func (w *worker) post(ctx context.Context, c net.Conn, p sluice.Parcel) bool {
	own := w.link.Slot()
	if ctx.Err() == nil && w.successorTakes(p) && w.postToSuccessor(c, p) {
		return true
	}
	for to := range w.board.segment.Others() {
		slot := int(to.Get(shared.Slot))
		if ctx.Err() != nil || slot == own || !w.takes(to, p) || !announce(to) {
			continue
		}
		if w.postTo(slot, c, appendParcel(nil, to.PID(), p), 0) {
			return true
		}
		to.Sub(shared.Inbound, 1)
	}
	return false
}

// postToSuccessor sends a connection to the inbox of the worker's own slot. The successor is
// told of it, so that it gets no more than it has room for.
func (w *worker) postToSuccessor(c net.Conn, p sluice.Parcel) bool {
	own, announcedTo := w.link.Slot(), 0
	for page := range w.board.segment.Others() {
		if int(page.Get(shared.Slot)) != own || shared.State(page.Get(shared.ProcessState)) != shared.Ready {
			continue
		}
		if !announce(page) {
			return false
		}
		if announcedTo = page.PID(); w.postTo(own, c, appendParcel(nil, announcedTo, p), postPatience) {
			return true
		}
		page.Sub(shared.Inbound, 1)
		return false
	}
	return w.postTo(own, c, appendParcel(nil, 0, p), postPatience)
}

// takes tells whether the worker at page understands p.
func (w *worker) takes(page *shared.Page, p sluice.Parcel) bool {
	kind := p.Kind()
	return page.Get(shared.StateKinds)&kind == kind
}

// successorTakes tells whether those understand p that may read the inbox of the worker's
// own slot: later workers of the slot.
func (w *worker) successorTakes(p sluice.Parcel) bool {
	if len(p.State) == 0 {
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
func (w *worker) postTo(slot int, c net.Conn, parcel []byte, wait time.Duration) bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	sent := false
	err = raw.Control(func(fd uintptr) {
		sent = w.link.Post(slot, int(fd), parcel, wait) == nil
	})
	return err == nil && sent
}
