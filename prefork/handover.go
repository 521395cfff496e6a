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
	// handOverInterval is how often a worker that is replaced looks for
	// connections that have got between requests.
	handOverInterval = 2 * time.Millisecond
	// handOverBatch is how many are taken from the server at a time: those that
	// have not been sent yet are answered by nobody.
	handOverBatch = 256
	// postPatience bounds the wait for room in an inbox. Whoever reads it takes
	// a connection in microseconds.
	postPatience = time.Second
)

// What goes with a connection from one worker to another: the process that
// counts it as Inbound, 0 if none does, in 4 bytes, and the input that was read
// from it and not used.
const parcelHead = 4

// appendParcel appends what goes with a connection.
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
	err := w.prefork.server.AdoptSocket(fd, parcel[parcelHead:])
	if pid := binary.LittleEndian.Uint32(parcel); pid != 0 {
		w.board.arrived(int(pid))
	}
	if err != nil {
		w.logf("a connection of another worker is lost: %v", err)
	}
}

// handOver gives the connections that are between requests to whoever serves
// on, and the others as soon as they have been answered, until there are none or
// ctx ends. Their clients notice nothing. It returns their number.
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
		// It is served here until it is our turn to close it.
		if err := s.AdoptConn(c, leftover); err != nil {
			w.logf("a connection is lost: %v", err)
		}
	}
	poll(ctx, handOverInterval, func() bool {
		for before := count; s.HandOver(handOverBatch, take) == handOverBatch && count > before; before = count {
		}
		return s.GetOpenConnectionsCount() == 0
	})
	return count
}

// post sends a connection to the worker's own slot, where a successor reads, or
// else to a sibling, as long as ctx allows.
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
