package prefork

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

const (
	// handOverInterval is how often a worker that is being replaced looks for
	// connections that are now between requests.
	handOverInterval = 2 * time.Millisecond
	// handOverBatch is how many connections are taken from the server at a time.
	// It is bounded because no worker serves a connection between the taking and
	// the sending.
	handOverBatch = 256
	// postPatience bounds the wait for room in an inbox. Its reader receives a
	// connection within microseconds.
	postPatience = time.Second
)

// A connection travels from one worker to another with a parcel: the id of the
// process that counts it as Inbound (0: none), in 4 bytes, little-endian, and the
// input that was read from it and not used.
const parcelHead = 4

// appendParcel appends a connection's parcel to dst.
func appendParcel(dst []byte, announcedTo int, leftover []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(announcedTo))
	return append(dst, leftover...)
}

// receive serves the connections that other workers post.
func (w *worker) receive() {
	if w.prefork.server == nil || w.link.Slots() == 0 {
		return
	}
	w.link.Receive(w.adoptConn)
}

// adoptConn serves a connection that another worker posted.
func (w *worker) adoptConn(fd int, parcel []byte) {
	if len(parcel) < parcelHead {
		w.logf("a connection came without its head")
		os.NewFile(uintptr(fd), "connection").Close()
		return
	}
	err := w.prefork.server.Control().AdoptSocket(fd, parcel[parcelHead:])
	if pid := binary.LittleEndian.Uint32(parcel); pid != 0 {
		w.board.arrived(int(pid))
	}
	if err != nil {
		w.logf("a connection of another worker is lost: %v", err)
	}
}

// handOver passes the connections that are between requests to the successor or
// to a sibling, and the other connections as soon as they are answered. It returns
// when none is left or ctx ends. It is invisible to clients. The result is the
// number of connections passed.
func (w *worker) handOver(ctx context.Context) int {
	s := w.prefork.server
	if s == nil || w.isTLS || w.link.Slots() == 0 {
		return 0
	}
	count := 0
	take := func(c net.Conn, leftover []byte) {
		if w.post(ctx, c, leftover) {
			count++
			c.Close() // this process's descriptor
			return
		}
		// This worker serves it until it closes its remaining connections.
		if err := s.Control().AdoptConn(c, leftover); err != nil {
			w.logf("a connection is lost: %v", err)
		}
	}
	poll(ctx, handOverInterval, func() bool {
		for before := count; s.Control().HandOver(handOverBatch, take) == handOverBatch && count > before; before = count {
		}
		return s.GetOpenConnectionsCount() == 0
	})
	return count
}

// post sends a connection to the inbox of the worker's own slot, which the
// successor reads. If that fails, it sends it to a sibling. It gives up when ctx
// ends.
func (w *worker) post(ctx context.Context, c net.Conn, leftover []byte) bool {
	own := w.link.Slot()
	if ctx.Err() == nil && w.postTo(own, c, appendParcel(nil, 0, leftover), postPatience) {
		return true
	}
	for to := range w.board.segment.Others() {
		slot := int(to.Get(shared.Slot))
		if ctx.Err() != nil || slot == own || !announce(to) {
			continue
		}
		if w.postTo(slot, c, appendParcel(nil, to.PID(), leftover), 0) {
			return true
		}
		to.Sub(shared.Inbound, 1)
	}
	return false
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
