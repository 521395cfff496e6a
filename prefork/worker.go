package prefork

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/cgroup"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/reuseport"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// bootSettle is how long a worker waits for an error of its Serve functions
	// before it reports ready. Typical errors come at once, for example an
	// unreadable certificate.
	bootSettle = 10 * time.Millisecond
	// masterPollInterval is how often a worker that no master controls checks
	// whether its parent has died.
	masterPollInterval = 500 * time.Millisecond
	// inheritedListener is the descriptor of the first of os/exec's ExtraFiles.
	inheritedListener = 3
)

// A link is the worker's connection to its master, a *supervise.Worker.
type link interface {
	IsBare() bool
	Slot() int
	Generation() int
	Configuration() []byte
	Listeners() []*os.File
	Shared() []*os.File
	Packets() ([]*os.File, int, []byte)
	Orders() <-chan supervise.Order
	Orphaned() <-chan struct{}
	OrphanGrace() time.Duration
	Ready() error
	Drained(supervise.DrainStats) error
	Fatal(class, text string) error
	Slots() int
	Post(slot, fd int, parcel []byte, wait time.Duration) error
	Receive(take func(fd int, parcel []byte))
	StopReceiving(empty bool)
	TakeBack()
	Meet(take func(*os.File)) error
}

// A worker is the state of ListenAndServe in a worker process. One goroutine owns
// it.
type worker struct {
	prefork  *Prefork
	link     link
	serve    func(net.Listener) error
	isTLS    bool
	own      []net.Listener         // of the slot
	adopted  map[int][]net.Listener // by the slot of a worker that died
	results  chan result            // of serve
	addrs    []net.Addr
	released map[net.Listener]bool // closed by the worker: their results are ignored
	early    *result               // received before run
	mourned  chan struct{}         // closed when OnMasterDeath has returned
	board    *board
	// hasSegment reports whether the worker uses the master's segment.
	hasSegment bool
	batches    uint32 // that were handed over
	kept       kept
	stop       chan struct{} // closed when ListenAndServe returns
}

// result is how serving a listener ended.
type result struct {
	ln  net.Listener
	err error
}

// work is ListenAndServe in a worker.
func (p *Prefork) work(addr string, serve func(net.Listener) error, isTLS bool) error {
	p.limitCPUs()
	if !startedAsChild { // a test has set the variable
		ln, err := p.listenBare(addr)
		if err != nil {
			return err
		}
		return serve(ln)
	}
	link, err := supervise.Attach(supervise.AttachOptions{Logger: p.logger(), OnPing: p.probe, OnStream: p.serveStream})
	if err != nil {
		return err
	}
	return p.workFor(link, addr, serve, isTLS)
}

// workFor is work with a link to the master.
func (p *Prefork) workFor(l link, addr string, serve func(net.Listener) error, isTLS bool) error {
	w := &worker{
		prefork: p, link: l, serve: serve, isTLS: isTLS,
		adopted:  make(map[int][]net.Listener),
		results:  make(chan result, 1),
		released: make(map[net.Listener]bool),
		mourned:  make(chan struct{}),
		stop:     make(chan struct{}),
	}
	defer close(w.stop)
	go w.mourn()
	if serves, err := w.start(addr); !serves {
		return err
	}
	return w.run()
}

// listenBare returns the listener of a worker that no master controls.
func (p *Prefork) listenBare(addr string) (net.Listener, error) {
	if p.Reuseport {
		return reuseport.Listen(p.network(), addr)
	}
	ln, err := listen.FromDescriptor(inheritedListener)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoListener, err)
	}
	return ln, nil
}

// start serves the worker's sockets and reports ready. If the worker cannot serve, it returns
// false, and the reason unless the master knows it.
func (w *worker) start(addr string) (serves bool, err error) {
	if err := w.listen(addr); err != nil {
		return false, w.refuse("listen", err)
	}
	if err := w.adoptSegment(); err != nil {
		return false, w.refuse("memory", err)
	}
	info := WorkerInfo{Slot: w.link.Slot(), Generation: w.link.Generation(), Config: w.link.Configuration()}
	info.Packets, info.PacketIndex, info.PacketSecret = w.link.Packets()
	if w.link.IsBare() {
		info = WorkerInfo{Slot: -1}
	}
	w.prefork.state.Store(&state{addrs: w.addrs})
	if hook := w.prefork.OnWorkerStart; hook != nil {
		if err := hook(info); err != nil {
			return false, w.refuse("config", err)
		}
	}
	if err := w.meet(info); err != nil {
		return false, w.refuse("backplane", err)
	}
	cgroup.LimitMemory(max(w.prefork.Workers, w.link.Slots()))
	w.shareTickets()
	w.appear(info)
	for _, ln := range w.own {
		w.serveOn(ln)
	}
	select {
	case r := <-w.results:
		if r.err != nil && !w.link.IsBare() {
			return false, w.refuse("serve", r.err)
		}
		w.early = &r
	case <-time.After(bootSettle):
	}
	w.receive()
	w.board.enter(shared.Ready)
	w.link.Ready() // an error means that the master is gone, which Orphaned reports
	return true, nil
}

// refuse tells the master why this worker cannot serve. It returns nil if the master knows, which
// logs it: a program would print it a second time.
func (w *worker) refuse(class string, err error) error {
	if w.link.IsBare() || w.link.Fatal(class, err.Error()) != nil {
		return err
	}
	return nil
}

// appear puts the worker on the scoreboard. The server then updates its counters
// there, and passes connections to siblings with fewer.
func (w *worker) appear(info WorkerInfo) {
	w.board = newBoard(shared.Default(), info)
	s := w.prefork.server
	if s == nil {
		go w.board.write(nil, w.stop)
		return
	}
	c := s.Control()
	c.Meter = newMeter(w.board.segment, &w.board.slow)
	if c.Divert == nil && !w.isTLS && w.link.Slots() > 1 {
		c.Divert = w.divert
	}
	go w.board.write(c.Meter, w.stop)
}

// probe reports whether the server's event loops run.
func (p *Prefork) probe() error {
	if p.server == nil {
		return nil
	}
	return p.server.Control().Probe(context.Background())
}

// listen makes the listeners of the worker's slot.
func (w *worker) listen(addr string) error {
	for _, f := range w.link.Listeners() {
		ln, err := listen.FromFile(f)
		if err != nil {
			return err
		}
		w.own = append(w.own, ln)
	}
	if len(w.own) == 0 {
		if err := w.makeListeners(addr); err != nil {
			return err
		}
	}
	for _, ln := range w.own {
		w.addrs = append(w.addrs, ln.Addr())
	}
	return nil
}

// makeListeners opens listeners in a worker that has inherited none.
func (w *worker) makeListeners(addr string) error {
	if !w.prefork.Reuseport {
		return errNoListener
	}
	for _, a := range append([]string{addr}, w.prefork.Listen...) {
		ln, err := reuseport.Listen(w.prefork.network(), a)
		if err != nil {
			return err
		}
		w.own = append(w.own, ln)
	}
	return nil
}

// serveOn serves ln on a separate goroutine.
func (w *worker) serveOn(ln net.Listener) {
	go func() { w.results <- result{ln, w.serve(ln)} }()
}

// run carries out orders until the worker ends.
func (w *worker) run() error {
	if w.early != nil {
		if isOver, err := w.served(*w.early); isOver {
			return err
		}
	}
	for {
		select {
		case r := <-w.results:
			if isOver, err := w.served(r); isOver {
				return err
			}
		case o := <-w.link.Orders():
			switch o.Kind {
			case supervise.OrderDrain:
				return w.drain(o)
			case supervise.OrderQuit:
				w.stopAccepting()
				return nil
			default:
				w.carryOut(o)
			}
		case <-w.link.Orphaned():
			return w.orphaned()
		}
	}
}

// served handles the end of serving a listener. If the listener is one of the
// worker's own, the worker ends.
func (w *worker) served(r result) (isOver bool, err error) {
	if w.released[r.ln] {
		delete(w.released, r.ln)
		return false, nil
	}
	for _, ln := range w.own {
		if ln == r.ln {
			w.stopAccepting()
			return true, r.err
		}
	}
	w.logf("a socket of another slot is not served any more: %v", r.err)
	return false, nil
}

// carryOut carries out an order that does not end the worker.
func (w *worker) carryOut(o supervise.Order) {
	switch o.Kind {
	case supervise.OrderAdopt:
		w.adopt(o.Slot, o.Files)
	case supervise.OrderRelease:
		for _, ln := range w.adopted[o.Slot] {
			w.close(ln)
		}
		delete(w.adopted, o.Slot)
	case supervise.OrderReopen:
		w.prefork.reopen()
	}
	if err := o.Ack(); err != nil {
		w.logf("%v: %v", o.Kind, err)
	}
}

// adopt serves the sockets of another slot, whose worker has died.
func (w *worker) adopt(slot int, files []*os.File) {
	if len(w.adopted[slot]) > 0 { // a master that has taken over repeats the order
		for _, f := range files {
			f.Close()
		}
		return
	}
	for _, f := range files {
		ln, err := listen.FromFile(f)
		if err != nil {
			w.logf("cannot take the socket of slot %d over: %v", slot, err)
			continue
		}
		w.adopted[slot] = append(w.adopted[slot], ln)
		w.serveOn(ln)
	}
}

// close ends the serving of ln and closes this process's descriptor. The socket
// itself stays open in other processes.
func (w *worker) close(ln net.Listener) {
	w.released[ln] = true
	var err error
	if s := w.prefork.server; s != nil {
		err = s.Control().StopAccepting(ln)
	} else {
		err = ln.Close()
	}
	if err != nil {
		w.logf("closing %v: %v", ln.Addr(), err)
	}
}

// stopAccepting closes all listeners.
func (w *worker) stopAccepting() {
	for _, ln := range w.listeners() {
		if !w.released[ln] {
			w.close(ln)
		}
	}
	clear(w.adopted)
}

// listeners returns the worker's own and its adopted listeners.
func (w *worker) listeners() []net.Listener {
	all := append([]net.Listener(nil), w.own...)
	for _, others := range w.adopted {
		all = append(all, others...)
	}
	return all
}

// mourn calls OnMasterDeath after the master has died.
func (w *worker) mourn() {
	defer close(w.mourned)
	death := w.prefork.OnMasterDeath
	if !w.link.IsBare() {
		<-w.link.Orphaned()
	} else if death == nil {
		return
	} else {
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(masterPollInterval)
		}
	}
	if death != nil {
		death()
	}
}

// logf logs a line with the worker's slot, generation and process id.
func (w *worker) logf(format string, args ...any) {
	w.prefork.logger().Printf("worker %d.%d (pid %d): %s", w.link.Slot(), w.link.Generation(), os.Getpid(), fmt.Sprintf(format, args...))
}
