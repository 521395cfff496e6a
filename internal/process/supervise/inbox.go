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

// inboxPair holds both ends of a slot's inbox. The master keeps them open as long as
// it runs, so parcels that wait in an inbox are not lost when its reader ends.
type inboxPair struct{ rx, tx *os.File }

// close closes both ends. Parcels that wait are lost.
func (p *inboxPair) close() { closeFiles([]*os.File{p.rx, p.tx}) }

// Slots returns one more than the highest slot whose inbox this worker knows, or 0 if
// it knows none.
func (w *Worker) Slots() int { return w.inboxes.slots() }

// Post sends a duplicate of the descriptor fd, with payload, to the inbox of a slot,
// which may be the worker's own. The caller keeps fd, and should close it when Post
// returned nil: the parcel then survives this process.
//
// If the inbox is full, Post waits for at most wait and then returns ErrInboxFull; 0
// does not wait. Other errors are ErrNoInbox, ErrParcelSize, or those of the system.
func (w *Worker) Post(slot, fd int, payload []byte, wait time.Duration) error {
	return w.inboxes.post(slot, fd, payload, wait)
}

// Receive calls take for every parcel that arrives in the slot's inbox, and in those
// of slots that this worker serves meanwhile, until StopReceiving. take is called on
// other goroutines, one call at a time. take owns fd, which is closed on exec, or is -1
// if no descriptor was free; payload is valid until take returns. Call Receive at most
// once and before Ready.
// Without an inbox it does nothing.
func (w *Worker) Receive(take func(fd int, payload []byte)) { w.inboxes.receive(take) }

// StopReceiving ends what Receive began. After it has returned, take does not run and
// is not called again, except by TakeBack. If empty is true, the parcels that wait
// are taken first; this is for a stop without a successor. take must not call
// StopReceiving.
func (w *Worker) StopReceiving(empty bool) { w.inboxes.stop(empty) }

// TakeBack calls take for the parcels that wait in the slot's inbox, and returns when
// it is empty. It is for a worker that called StopReceiving(false), posted to its own
// slot, and then learns that no successor reads there. It works once.
func (w *Worker) TakeBack() { w.inboxes.takeBack() }
