package supervise

import (
	"errors"
	"os"
	"strings"
	"time"
)

// OrderKind is what the master wants from a worker.
type OrderKind uint8

const (
	// OrderDrain: stop accepting, finish within Grace, call Drained, exit 0.
	// A listener's Close does not wait for Accept: a connection may come out
	// of it still, so the accepting goroutines must be waited for.
	OrderDrain OrderKind = iota + 1
	// OrderAdopt: serve Files too, the sockets of Slot; then Ack.
	OrderAdopt
	// OrderRelease: stop accepting on the sockets of Slot and close them; then
	// Ack. Accepted connections are served on.
	OrderRelease
	// OrderReopen: reopen log files; then Ack.
	OrderReopen
	// OrderQuit: exit now.
	OrderQuit
)

// String returns the kind in lower case.
func (k OrderKind) String() string {
	names := [...]string{"none", "drain", "adopt", "release", "reopen", "quit"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// An Order is one wish of the master, or of a signal.
type Order struct {
	// Kind says what to do.
	Kind OrderKind
	// Grace is the time left, for OrderDrain. The master kills the process
	// soon after. 0: not known, in a worker without a master's control.
	Grace time.Duration
	// HasSuccessor tells for OrderDrain that somebody else serves the slot's
	// sockets already. Without one, a worker should accept until nothing waits
	// in their queues before it closes them. A second OrderDrain without one says
	// that there is none any more: nobody takes what is posted to the slot's inbox.
	HasSuccessor bool
	// Slot is whose sockets are adopted or released.
	Slot int
	// Files are the adopted sockets; the receiver closes them.
	Files []*os.File

	ack func() error
}

// Ack tells the master that the order was carried out. It does nothing for
// orders that came from a signal.
func (o Order) Ack() error {
	if o.ack == nil {
		return nil
	}
	return o.ack()
}

// DrainStats is what a worker reports at its end.
type DrainStats struct {
	// Finished is the number of connections that ended in good order.
	Finished int
	// HandedOver is the number of connections that went to a successor.
	HandedOver int
	// Cut is the number of connections that were open at the deadline.
	Cut int
}

// AttachOptions are a worker's wishes.
type AttachOptions struct {
	// Logger takes the log of the worker's side, through a Journal. nil: nothing is
	// logged.
	Logger Logger
	// OrphanGrace replaces the master's Config.OrphanGrace. 0: the master's.
	OrphanGrace time.Duration
	// NoSignals: the process's signals are left alone.
	NoSignals bool
	// OnPing is called for the master's probes, on a goroutine of its own, one
	// at a time. It returns nil when everything that serves was seen to run, and
	// only then the master gets its answer. A probe that comes meanwhile waits;
	// of several, the last. nil: probes are answered at once.
	OnPing func() error
}

// ErrDetached is returned by what needs a master in a worker that has none:
// one that was started with no control socket.
var ErrDetached = errors.New("sluice: the worker has no control socket")

// TakeEnv returns the variable name of the environment and removes it there,
// so that processes which this one starts do not see it.
func TakeEnv(name string) (value string, found bool) {
	value, found = os.LookupEnv(name)
	if found {
		os.Unsetenv(name)
	}
	return value, found
}

// A Worker is the process's own end of the supervision. Its methods may be
// called by several goroutines.
type Worker struct {
	layout    layout
	bare      bool
	listeners []*os.File
	shared    []*os.File
	orders    *orderQueue
	orphaned  chan struct{}
	options   AttachOptions
	inboxes   inboxes
	attachment
}

// Attach finds what a master gave to this process: sockets, the control socket,
// the lifeline. It must be called at most once in a process that was started
// as a worker, before the process opens files that it cannot spare.
//
// Without a control socket it succeeds too: the worker is bare. A bare worker
// has a listener if descriptor 3 is one; SIGTERM gives it OrderDrain.
//
// The inherited descriptors are closed when this process starts others.
// Signals, unless NoSignals: TERM becomes a wish to the master to be replaced,
// USR1 becomes OrderReopen; INT, HUP, USR2, TTIN, TTOU and WINCH, which a
// terminal or a user sends to the whole group, are the master's and are
// ignored. QUIT is left to Go's runtime, which prints all stacks.
//
// If the master dies, Orphaned is closed, and the process exits at the latest
// half a second after OrphanGrace.
func Attach(o AttachOptions) (*Worker, error) {
	if o.Logger == nil {
		o.Logger = noLogger{}
	}
	o.Logger = NewJournal(o.Logger)
	w := &Worker{
		options:  o,
		orders:   newOrderQueue(),
		orphaned: make(chan struct{}),
	}
	if err := w.attach(); err != nil {
		return nil, err
	}
	return w, nil
}

// IsBare tells that there is no control socket.
func (w *Worker) IsBare() bool { return w.bare }

// Slot is the worker's place in the fleet, from 0. 0 in a bare one.
func (w *Worker) Slot() int { return w.layout.Slot }

// Generation counts the processes of the slot, from 1. 0 in a bare one.
func (w *Worker) Generation() int { return w.layout.Generation }

// Configuration returns the bytes by which the master wants the worker configured:
// Config.Configuration, or what OnReload has returned since. The caller must not
// change them.
func (w *Worker) Configuration() []byte { return w.layout.Configuration }

// Listeners returns the listening sockets of the slot, in the order of
// Config.Sockets. The caller closes them.
func (w *Worker) Listeners() []*os.File { return w.listeners }

// Shared returns Config.SharedFiles. The caller closes them.
func (w *Worker) Shared() []*os.File { return w.shared }

// Orders returns the master's orders. It is never closed. A worker that does
// not receive them is killed when their time is over; nothing else waits for
// it. Of orders that were not received those are dropped, without an Ack, that
// a later one replaces: an OrderReopen or OrderDrain by the next, what is about
// a slot by the next for that slot, and all by OrderQuit.
func (w *Worker) Orders() <-chan Order { return w.orders.out }

// Orphaned is closed when the master is gone, milliseconds after its death.
// Never, in a bare worker.
func (w *Worker) Orphaned() <-chan struct{} { return w.orphaned }

// OrphanGrace is how long the process may go on without its master.
func (w *Worker) OrphanGrace() time.Duration { return w.orphanGrace() }

// Ready tells the master that the worker serves. It does nothing in a bare
// one.
func (w *Worker) Ready() error { return w.tell(messageReady, nil) }

// Drained tells the master that all work is done; the process should exit
// next. It does nothing in a bare one.
func (w *Worker) Drained(s DrainStats) error { return w.tellJSON(messageDrained, s) }

// Fatal tells the master why the worker cannot serve; the process should exit
// next, with another status than 0. Class is a word for programs: "config",
// "bind", …. It does nothing in a bare worker.
func (w *Worker) Fatal(class, text string) error {
	return w.tellJSON(messageFatal, fatal{Class: class, Text: clip(text)})
}

// Recycle asks the master to replace this worker, which is not counted as a
// crash. OrderDrain follows when the successor is ready.
func (w *Worker) Recycle(reason string) error {
	if w.bare {
		return ErrDetached
	}
	return w.tell(messageRecycle, []byte(clip(reason)))
}

// clip bounds a text that goes into a message.
func clip(text string) string {
	const most = 4 << 10
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
