//go:build unix

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// firstInherited is the number of the first of os/exec's ExtraFiles.
	firstInherited = 3
	// lastInherited bounds the search for the control socket.
	lastInherited = 255
	// exitSlack is the time that an orphan has beyond its grace.
	exitSlack = 500 * time.Millisecond
	// recyclePatience is how long SIGTERM waits for the master's answer.
	recyclePatience = 10 * time.Second
)

// attachment is the part of a Worker that depends on the system.
type attachment struct {
	link     *link
	lifeline *os.File
	orphan   sync.Once
	pings    *probes

	mu       sync.Mutex
	draining bool      // OrderDrain was issued
	said     []message // READY and RECYCLE, as they were sent
}

// attach finds the descriptors and starts listening.
func (w *Worker) attach() error {
	control, hello, err := findControl()
	if err != nil {
		return err
	}
	if control < 0 {
		w.bare = true
		if isListener(firstInherited) {
			w.listeners = []*os.File{inherited(firstInherited, "listener")}
		}
	} else if err := w.attachTo(control, hello); err != nil {
		return err
	}
	if !w.options.NoSignals {
		w.watchSignals()
	}
	return nil
}

// findControl looks among the inherited descriptors for a socket on which HELLO
// waits, and does not receive it. It returns -1 if there is none.
func findControl() (fd int, hello layout, err error) {
	packet := make([]byte, headSize+maxPayload)
	for fd := firstInherited; fd <= lastInherited; fd++ {
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != controlType {
			continue
		}
		name, _ := unix.Getsockname(fd) // nil is not a unix address
		if _, isUnix := name.(*unix.SockaddrUnix); !isUnix {
			continue
		}
		size, _, _, _, err := unix.Recvmsg(fd, packet, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != nil {
			continue
		}
		m, err := parseMessage(packet[:size])
		if errors.Is(err, errVersion) {
			return -1, layout{}, err
		}
		if err != nil || m.kind != messageHello {
			continue
		}
		hello, err := parseLayout(m.payload)
		return fd, hello, err
	}
	return -1, layout{}, nil
}

// ShieldInherited prevents child processes from inheriting the descriptors that a
// master has passed to this process. Attach does the same later, but a program may
// start processes before that, and each would keep the port and the lifeline open.
// Call it in a worker when the program is initialised. It does not change files
// that a Start function has added.
func ShieldInherited() {
	control, hello, err := findControl()
	if err != nil {
		return // Attach will report it, and the process ends
	}
	if control < 0 {
		if isListener(firstInherited) {
			unix.CloseOnExec(firstInherited)
		}
		return
	}
	base := control - hello.Control
	last := control
	if isPipe(base + hello.Lifeline) {
		last = base + hello.Lifeline + hello.Shared
		last += hello.inboxFiles()
		if hello.Packets != nil {
			last += hello.Packets.Files
		}
	}
	for fd := max(base, firstInherited); fd <= last; fd++ {
		unix.CloseOnExec(fd)
	}
}

// attachTo takes over the descriptors that hello describes.
func (w *Worker) attachTo(control int, hello layout) error {
	w.layout = hello
	base := control - hello.Control // descriptor of the first of the master's files
	if base < firstInherited {
		return fmt.Errorf("sluice: control socket at descriptor %d cannot be file %d", control, hello.Control)
	}
	w.inboxes.begin(hello.Slot, w.options.Logger)
	w.link = newLink(inherited(control, "control"))
	for i := range hello.Listeners {
		if !isListener(base + i) {
			return fmt.Errorf("sluice: descriptor %d is not a listener", base+i)
		}
		w.listeners = append(w.listeners, inherited(base+i, "listener"))
	}
	// A Start function need not pass on the files after the control socket.
	if fd := base + hello.Lifeline; isPipe(fd) {
		w.lifeline = inherited(fd, "lifeline")
		for i := range hello.Shared {
			unix.CloseOnExec(fd + 1 + i)
			w.shared = append(w.shared, os.NewFile(uintptr(fd+1+i), "shared"))
		}
		w.inboxes.open(hello, fd+1+hello.Shared)
		w.openPackets(fd + 1 + hello.Shared + hello.inboxFiles())
	}
	RestoreName()
	m, _, _ := w.link.receive() // HELLO itself, which findControl has seen
	if err := w.link.send(message{kind: messageAck, seq: m.seq}, nil); err != nil {
		w.options.Logger.Printf("worker: %v", err) // the master has ended; the lifeline will report it
	}
	w.pings = newProbes()
	go w.listen()
	go w.answer()
	if w.lifeline != nil {
		go w.watchLifeline()
	}
	return nil
}

// openPackets finds the sockets of Config.Packets among the descriptors from first on.
func (w *Worker) openPackets(first int) {
	if w.layout.Packets == nil {
		return
	}
	for fd := first; fd < first+w.layout.Packets.Files; fd++ {
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_DGRAM {
			return // a Start function did not pass it on
		}
		w.packets = append(w.packets, inherited(fd, "packets"))
	}
}

// RestoreName sets the process's name to the program's name, where the kernel took it
// from the descriptor, or /proc/self/exe, that was executed.
func RestoreName() {
	const file = "/proc/self/comm"
	name, err := os.ReadFile(file)
	if err != nil || string(name) != "exe\n" && strings.Trim(string(name), "0123456789\n") != "" {
		return
	}
	os.WriteFile(file, []byte(filepath.Base(os.Args[0])), 0)
}

// listen turns the master's messages into orders.
func (w *Worker) listen() {
	for {
		m, descriptors, err := w.link.receive()
		if err != nil {
			w.becomeOrphan()
			return
		}
		if m.lacksDescriptors {
			w.options.Logger.Printf("worker %d.%d (pid %d): message %d of the master came without its descriptors: %v",
				w.Slot(), w.Generation(), os.Getpid(), m.kind, unix.EMFILE)
			w.meetings.message(m, nil)
			continue
		}
		switch {
		case m.kind == messagePing:
			w.pings.note(m.seq)
		case m.kind == messageStream:
			w.takeStreams(descriptors)
		case m.kind == messageResume:
			w.repeat(m.seq)
		case w.inboxes.message(m, descriptors) || w.meetings.message(m, descriptors):
		default:
			if o, ok := w.orderOf(m, descriptors); ok {
				w.orders.put(o)
			}
		}
	}
}

// takeStreams takes what Master.Stream has passed.
func (w *Worker) takeStreams(descriptors []int) {
	for _, fd := range descriptors {
		if w.options.OnStream == nil {
			unix.Close(fd)
			continue
		}
		go w.options.OnStream(inherited(fd, "stream"))
	}
}

// orderOf returns the order that a message contains. Unknown messages contain none.
func (w *Worker) orderOf(m message, descriptors []int) (Order, bool) {
	seq := m.seq
	o := Order{Slot: int(m.slot), ack: func() error { return w.reply(messageAck, seq) }}
	switch m.kind {
	case messageDrain:
		grace, err := parseGrace(m.payload)
		if err != nil {
			return Order{}, false
		}
		o.Kind, o.Grace, o.HasSuccessor = OrderDrain, grace, m.flags&flagSuccessor != 0
		w.noteDrain()
	case messageAdopt:
		o.Kind = OrderAdopt
		for _, fd := range descriptors {
			if !isListener(fd) {
				unix.Close(fd)
				continue
			}
			o.Files = append(o.Files, inherited(fd, "adopted listener"))
		}
	case messageRelease:
		o.Kind = OrderRelease
	case messageReopen:
		o.Kind = OrderReopen
	case messageQuit:
		o.Kind = OrderQuit
	default:
		return Order{}, false
	}
	return o, true
}

// repeat tells a master that has taken over what the one before may not have told it.
func (w *Worker) repeat(seq uint32) {
	answer := message{kind: messageAck, seq: seq}
	hasAsked, hasMet := w.meetings.progress()
	if hasMet {
		answer.flags |= flagMet
	}
	w.mu.Lock()
	all := append([]message{answer}, w.said...)
	w.mu.Unlock()
	if hasAsked && !hasMet {
		all = append(all, message{kind: messageMeeting})
	}
	for _, m := range all {
		if err := w.link.send(m, nil); err != nil {
			w.options.Logger.Printf("worker: %v", err) // the next master asks again
		}
	}
}

// noteDrain records that the worker drains, and reports whether it did before.
func (w *Worker) noteDrain() (before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.draining = w.draining, true
	return before
}

// watchLifeline waits for the master's death.
func (w *Worker) watchLifeline() {
	w.lifeline.Read(make([]byte, 1)) // nothing is ever sent
	w.becomeOrphan()
}

// becomeOrphan: the master has died. The process ends in time, whatever its handlers
// do.
func (w *Worker) becomeOrphan() {
	w.orphan.Do(func() {
		close(w.orphaned)
		time.AfterFunc(w.orphanGrace()+exitSlack, func() { os.Exit(1) })
		w.options.Logger.Printf("worker %d.%d (pid %d): the master is gone: %v to finish",
			w.Slot(), w.Generation(), os.Getpid(), w.orphanGrace())
	})
}

// orphanGrace is the time that an orphan has to finish.
func (w *Worker) orphanGrace() time.Duration {
	return orElse(w.options.OrphanGrace, time.Duration(w.layout.OrphanGraceMS)*time.Millisecond)
}

// watchSignals receives the process's signals. Those for the master are received and
// dropped instead of ignored, because child processes inherit what is ignored.
// SIGTERM and the dropped signals have separate channels, so a flood of SIGWINCH
// cannot displace a SIGTERM.
func (w *Worker) watchSignals() {
	terms, reopens, others := make(chan os.Signal, 2), make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	signal.Notify(reopens, syscall.SIGUSR1)
	signal.Notify(others, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGWINCH)
	go w.heedSignals(terms, reopens)
}

// heedSignals handles SIGTERM and SIGUSR1.
func (w *Worker) heedSignals(terms, reopens <-chan os.Signal) {
	hasAsked := false
	for {
		select {
		case <-terms:
			w.terminate(hasAsked)
			hasAsked = true
		case <-reopens:
			w.orders.put(Order{Kind: OrderReopen})
		}
	}
}

// terminate handles SIGTERM. The master starts a successor and then sends the order
// to drain. If it does not, or there is no master, or the signal comes again, the
// worker drains without an order.
func (w *Worker) terminate(hasAsked bool) {
	drain := func() {
		if !w.noteDrain() {
			w.orders.put(Order{Kind: OrderDrain})
		}
	}
	if w.bare || hasAsked || w.Recycle("SIGTERM") != nil {
		drain()
		return
	}
	time.AfterFunc(recyclePatience, drain)
}

// reply answers the message with the number seq.
func (w *Worker) reply(kind messageType, seq uint32) error {
	return w.link.send(message{kind: kind, seq: seq}, nil)
}

// send sends a message to the master, if there is one.
func (w *Worker) send(kind messageType, payload []byte) error {
	if w.bare {
		return nil
	}
	m := message{kind: kind, slot: uint16(w.Slot()), payload: payload}
	if kind == messageReady || kind == messageRecycle {
		w.mu.Lock()
		w.said = append(slices.DeleteFunc(w.said, func(other message) bool { return other.kind == kind }), m)
		w.mu.Unlock()
	}
	return w.link.send(m, nil)
}

// sendJSON is send with a value in JSON, of numbers and texts.
func (w *Worker) sendJSON(kind messageType, value any) error {
	payload, _ := json.Marshal(value)
	return w.send(kind, payload)
}
