package supervise

import (
	"errors"
	"os"
	"time"
)

// What Post returns.
var (
	// ErrInboxFull: the slot's inbox has no room, and had none for the time that
	// Post was allowed to wait.
	ErrInboxFull = errors.New("sluice: the inbox is full")
	// ErrNoInbox: the slot has no inbox, or this worker does not know it.
	ErrNoInbox = errors.New("sluice: no such inbox")
	// ErrParcelSize: the payload is longer than MaxParcel, or than the system
	// allows.
	ErrParcelSize = errors.New("sluice: the parcel is too large")
)

// MaxParcel is the largest payload of a parcel, in bytes.
const MaxParcel = maxPayload

// inboxPair is both ends of a slot's inbox, as the master holds them for as
// long as it runs: what waits in there waits for whoever reads it next.
type inboxPair struct{ rx, tx *os.File }

// close closes both ends, and with them what waits.
func (p *inboxPair) close() { closeFiles([]*os.File{p.rx, p.tx}) }

// Slots is one more than the highest slot whose inbox this worker knows. 0:
// there are none.
func (w *Worker) Slots() int { return w.inboxes.slots() }

// Post sends a duplicate of the descriptor fd, and payload with it, to the
// inbox of a slot, which may be the worker's own. The caller keeps fd, and
// should close it when Post returned nil: the parcel is then the fleet's,
// whatever becomes of this process.
//
// A full inbox is ErrInboxFull, after up to wait; 0 does not wait. Otherwise
// ErrNoInbox, ErrParcelSize, or what the system says.
func (w *Worker) Post(slot, fd int, payload []byte, wait time.Duration) error {
	return w.inboxes.post(slot, fd, payload, wait)
}

// Receive has take called for every parcel that comes to the slot's inbox, and
// to those of slots whose place this worker takes meanwhile, until
// StopReceiving. take is called on other goroutines, once at a time. fd is
// take's own, closed on exec; payload is valid until take returns. Receive must
// be called at most once and before Ready. It does nothing without an inbox.
func (w *Worker) Receive(take func(fd int, payload []byte)) { w.inboxes.receive(take) }

// StopReceiving ends what Receive began. When it has returned, take does not run
// and is not called again, but for TakeBack. empty: what waits is taken first, for
// a stop after which nobody else would. take must not call it.
func (w *Worker) StopReceiving(empty bool) { w.inboxes.stop(empty) }

// TakeBack has take called for what waits in the slot's inbox, and returns when
// that is empty. It is for a worker that has stopped receiving, not empty, has
// posted to its own slot, and learns that nobody reads there any more. It works
// once.
func (w *Worker) TakeBack() { w.inboxes.takeBack() }
