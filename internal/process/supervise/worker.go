package supervise

import (
	"errors"
	"os"
	"strings"
	"time"
)

// OrderKind is the kind of an Order.
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

// An Order is a command to the worker, from the master or from a signal.
type Order struct {
	// Kind says what to do.
	Kind OrderKind
	// Grace is the time left, for OrderDrain. The master kills the process soon
	// after it. 0: unknown, in a worker that no master controls.
	Grace time.Duration
	// HasSuccessor tells for OrderDrain that another worker serves the slot's sockets
	// already. Otherwise the worker should accept until its queues are empty before
	// it closes them. A second OrderDrain without it says that there is no successor
	// any more: no worker receives what is posted to the slot's inbox.
	HasSuccessor bool
	// Slot is the slot whose sockets are adopted or released.
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

// DrainStats is a worker's last report.
type DrainStats struct {
	// Finished is the number of connections that ended in an orderly way.
	Finished int
	// HandedOver is the number of connections that went to other workers.
	HandedOver int
	// Cut is the number of connections that were open at the deadline.
	Cut int
}

// AttachOptions configure a Worker.
type AttachOptions struct {
	// Logger receives what this package logs in the worker, through a Journal. nil:
	// nothing is logged.
	Logger Logger
	// OrphanGrace replaces the master's Config.OrphanGrace. 0: the master's.
	OrphanGrace time.Duration
	// NoSignals: the process's signals are left alone.
	NoSignals bool
	// OnPing is called for the master's probes, on a goroutine of its own, one call
	// at a time. It should return nil once it has seen that everything that serves
	// runs; only then the master gets an answer. A probe that arrives meanwhile
	// waits; of several, only the last is kept. nil: probes are answered at once.
	OnPing func() error
	// OnStream is called, on a goroutine of its own, with the worker's end of a stream of
	// Master.Stream. It owns the file. nil: streams are closed.
	OnStream func(*os.File)
}

// ErrDetached is returned by methods that need a master, in a worker that was
// started without a control socket.
var ErrDetached = errors.New("sluice: the worker has no control socket")

// TakeEnv returns the environment variable name and removes it, so that child
// processes do not inherit it.
func TakeEnv(name string) (value string, found bool) {
	value, found = os.LookupEnv(name)
	if found {
		os.Unsetenv(name)
	}
	return value, found
}

// A Worker is the connection of a worker process to its master. Its methods may be
// called concurrently.
type Worker struct {
	layout    layout
	bare      bool
	listeners []*os.File
	shared    []*os.File
	packets   []*os.File
	orders    *orderQueue
	orphaned  chan struct{}
	options   AttachOptions
	inboxes   inboxes
	meetings  meetings
	attachment
}

// Attach finds the descriptors that a master has passed to this process: sockets,
// the control socket, the lifeline. Call it at most once, in a process that was
// started as a worker, before the process opens other files, because Attach may
// take those for inherited ones.
//
// Without a control socket it succeeds too, and the worker is bare. A bare worker
// has a listener if descriptor 3 is one; SIGTERM gives it OrderDrain.
//
// Processes that this one starts do not inherit the descriptors. Signals, unless
// NoSignals: TERM asks the master to replace this worker, and USR1 becomes
// OrderReopen. INT, HUP, USR2, TTIN, TTOU and WINCH are ignored, because a terminal
// or a user sends them to the whole process group and the master handles them.
// QUIT is left to Go's runtime, which prints all stacks.
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

// IsBare reports whether the worker has no control socket.
func (w *Worker) IsBare() bool { return w.bare }

// Slot returns the number of the worker's slot, from 0. It is 0 in a bare worker.
func (w *Worker) Slot() int { return w.layout.Slot }

// Generation returns the number of the process within its slot, from 1. It is 0 in
// a bare worker.
func (w *Worker) Generation() int { return w.layout.Generation }

// Configuration returns the worker's configuration: Config.Configuration, or a
// later result of OnReload. The caller must not change the bytes.
func (w *Worker) Configuration() []byte { return w.layout.Configuration }

// Listeners returns the listening sockets of the slot, in the order of
// Config.Sockets. The caller closes them.
func (w *Worker) Listeners() []*os.File { return w.listeners }

// Shared returns Config.SharedFiles. The caller closes them.
func (w *Worker) Shared() []*os.File { return w.shared }

// Packets returns the worker's own sockets of Config.Packets, their index, and
// Config.PacketSecret. The caller closes the sockets, and must not change the secret.
// Without Packets it returns zero values.
func (w *Worker) Packets() (sockets []*os.File, index int, secret []byte) {
	if p := w.layout.Packets; p != nil && len(w.packets) > 0 {
		return w.packets, p.Index, p.Secret
	}
	return nil, 0, nil
}

// Orders returns the channel of orders, which is never closed. If a worker does not
// receive an order, the master kills it at the order's deadline; nothing else waits
// for it. A later order replaces earlier ones that were not received, without an
// Ack: OrderReopen and OrderDrain replace an order of the same kind, an order about
// a slot replaces one about the same slot, and OrderQuit replaces all.
func (w *Worker) Orders() <-chan Order { return w.orders.out }

// Orphaned returns a channel that is closed within milliseconds of the master's
// death. In a bare worker it is never closed.
func (w *Worker) Orphaned() <-chan struct{} { return w.orphaned }

// OrphanGrace returns how long the process may continue after the master's death.
func (w *Worker) OrphanGrace() time.Duration { return w.orphanGrace() }

// Ready tells the master that the worker serves. It does nothing in a bare worker.
func (w *Worker) Ready() error { return w.send(messageReady, nil) }

// Drained tells the master that all work is done. The process should exit next.
// It does nothing in a bare worker.
func (w *Worker) Drained(s DrainStats) error { return w.sendJSON(messageDrained, s) }

// Fatal tells the master why the worker cannot serve. The process should exit next, with
// any status. class is the error's class, for programs: "config",
// "listen", …. It does nothing in a bare worker.
func (w *Worker) Fatal(class, text string) error {
	return w.sendJSON(messageFatal, fatal{Class: class, Text: clip(text)})
}

// Recycle asks the master to replace this worker. This does not count as a crash.
// OrderDrain follows when the successor is ready.
func (w *Worker) Recycle(reason string) error {
	if w.bare {
		return ErrDetached
	}
	return w.send(messageRecycle, []byte(clip(reason)))
}

// clip bounds a text that goes into a message.
func clip(text string) string {
	const most = 4 << 10
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
