package prefork

import (
	"context"
	"time"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// drainPollInterval is how often a draining worker checks its connections.
	// socketPollInterval replaces it where a check visits all descriptors.
	drainPollInterval  = 5 * time.Millisecond
	socketPollInterval = 25 * time.Millisecond
	// stopLinger replaces IdleLinger in a worker without a successor. A connection
	// that was just accepted probably has a request on its way.
	stopLinger = 50 * time.Millisecond
	// farewell is how long before the end of its time a worker says goodbye on idle
	// connections; a quarter of the time if that is less. It is longer than the engines
	// linger.
	farewell = 2 * time.Second
	// inboundPatience bounds the wait for connections that siblings have announced.
	inboundPatience = 100 * time.Millisecond
	// queuePatience bounds the wait until the sockets' queues are empty.
	queuePatience = time.Second
)

// drain ends the worker on the master's order.
func (w *worker) drain(o supervise.Order) error {
	grace := o.Grace
	if grace <= 0 {
		grace = w.prefork.drainTimeout()
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	succession, abandon := context.WithCancel(ctx)
	defer abandon()
	if !o.HasSuccessor {
		abandon()
	}
	go w.heed(ctx, cancel, abandon)
	w.finish(ctx, succession)
	return nil
}

// orphaned ends the worker after the master has died. No process would replace
// the worker if it died, and the next master needs the port.
func (w *worker) orphaned() error {
	ctx, cancel := context.WithTimeout(context.Background(), w.link.OrphanGrace())
	defer cancel()
	succession, abandon := context.WithCancel(ctx)
	abandon()
	go w.heed(ctx, cancel, abandon)
	w.finish(ctx, succession)
	return nil
}

// heed carries out orders that arrive while the worker drains. It calls abandon
// when the worker no longer has a successor.
func (w *worker) heed(ctx context.Context, cancel, abandon func()) {
	orphaned := w.link.Orphaned()
	for {
		select {
		case <-ctx.Done():
			return
		case <-orphaned: // the successor is orphaned, too
			orphaned = nil
			abandon()
			time.AfterFunc(w.link.OrphanGrace(), cancel)
		case o := <-w.link.Orders():
			switch o.Kind {
			case supervise.OrderQuit:
				cancel()
			case supervise.OrderDrain: // again: less time, or the successor has died
				if o.Grace > 0 { // 0: from a signal
					time.AfterFunc(o.Grace, cancel)
				}
				if !o.HasSuccessor {
					abandon()
				}
			case supervise.OrderReopen:
				w.prefork.reopen()
				o.Ack() // an error means that the master is gone
			case supervise.OrderAdopt: // the master asks another worker when this one has ended
				for _, f := range o.Files {
					f.Close()
				}
			case supervise.OrderRelease:
				o.Ack()
			}
		}
	}
}

// finish stops accepting, and returns when all connections are closed or ctx ends.
// Until succession ends, there is a successor to which it hands connections over.
func (w *worker) finish(ctx, succession context.Context) {
	hasSuccessor := succession.Err() == nil
	w.board.enter(shared.Draining)
	if !hasSuccessor {
		w.emptyQueues(ctx)
	}
	w.stopAccepting()
	if hasSuccessor {
		w.stopPassing(ctx, keepPatience)
	} else {
		w.stopPassing(ctx, inboundPatience)
		w.awaitInbound(ctx)
	}
	w.link.StopReceiving(!hasSuccessor)
	go w.discardResults()
	if w.prefork.OnDrain != nil {
		w.prefork.OnDrain()
	}
	goodbye, cancelGoodbye := untilFarewell(ctx)
	defer cancelGoodbye()
	lingering, linger, stats := goodbye, stopLinger, supervise.DrainStats{}
	if hasSuccessor {
		moving, cancel := context.WithTimeout(succession, min(w.prefork.idleLinger(), timeLeft(goodbye)))
		stats.HandedOver = w.handOver(moving)
		cancel()
	}
	switch {
	case succession.Err() == nil:
		lingering, linger = succession, min(w.prefork.idleLinger(), timeLeft(goodbye))
	case hasSuccessor && ctx.Err() == nil:
		w.logf("there is no successor any more: connections end here")
		w.link.TakeBack()
	}
	lingering, cancel := context.WithTimeout(lingering, linger)
	defer cancel()
	w.finishServer(ctx, lingering, &stats)
	w.finishOthers(ctx, &stats)
	w.part()
	w.board.enter(shared.Stopped)
	w.say(stats)
}

// untilFarewell returns a context that ends when idle connections must be told, so that none
// of them is left to be cut when ctx ends.
func untilFarewell(ctx context.Context) (context.Context, context.CancelFunc) {
	left := timeLeft(ctx)
	return context.WithTimeout(ctx, left-min(farewell, left/4))
}

// timeLeft returns the time until the deadline of ctx, which has one.
func timeLeft(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline), 0)
}

// say tells the master that the worker is done. If the master has died, the worker
// may be ending for that reason (the kernel then sends SIGTERM). OnMasterDeath must
// return before the process ends, so say waits for it, at most for OrphanGrace.
func (w *worker) say(stats supervise.DrainStats) {
	if w.link.Drained(stats) == nil {
		return
	}
	select {
	case <-w.mourned:
	case <-time.After(w.link.OrphanGrace()):
	}
}

// emptyQueues waits until all connections in the sockets' queues are accepted,
// because no other process would accept them.
func (w *worker) emptyQueues(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, queuePatience)
	defer cancel()
	poll(ctx, drainPollInterval, func() bool {
		for _, ln := range w.listeners() {
			if !isQueueEmpty(ln) {
				return false
			}
		}
		return true
	})
}

// awaitInbound waits for the connections that siblings have announced, because no
// other process would take them from the inbox. The wait is bounded: a sibling may
// have died between announcing a connection and sending it.
func (w *worker) awaitInbound(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inboundPatience)
	defer cancel()
	poll(ctx, drainPollInterval, func() bool { return w.board.page.Get(shared.Inbound) == 0 })
}

// finishServer ends the connections of the server that was given to New: busy ones
// after their response, idle ones when lingering ends.
func (w *worker) finishServer(ctx, lingering context.Context, stats *supervise.DrainStats) {
	s := w.prefork.server
	if s == nil {
		return
	}
	open := int(s.GetOpenConnectionsCount())
	s.Control().CloseOnNextResponse()
	poll(lingering, drainPollInterval, func() bool {
		if s.Control().Handshakes() > 0 || s.GetOpenConnectionsCount() > 0 { // in this order
			return false
		}
		accepted, _ := openSockets(w.addrs) // the server may not have counted all yet
		return accepted == 0
	})
	left := w.shutDown(ctx, stats)
	stats.Finished = max(open-left, 0)
}

// shutDown ends the server. If ctx ends first, it cuts the open connections. Before
// that it counts them, including hijacked ones, and returns how many of them the
// server owned.
func (w *worker) shutDown(ctx context.Context, stats *supervise.DrainStats) (left int) {
	s := w.prefork.server
	end, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		left = int(s.GetOpenConnectionsCount())
		all, _ := openSockets(w.addrs)
		stats.Cut = max(left, all)
		w.board.page.Add(shared.Cut, uint64(left))
	})
	// The error does not matter: it says that end has ended, or that a listener was
	// already closed.
	s.ShutdownWithContext(end)
	if !stop() { // the function has begun
		<-end.Done()
	}
	return left
}

// finishOthers waits for connections that the server does not own: those of a
// custom Serve function, and those that were hijacked.
func (w *worker) finishOthers(ctx context.Context, stats *supervise.DrainStats) {
	if drain := w.prefork.Drain; drain != nil {
		if err := drain(ctx); err != nil {
			w.logf("Drain: %v", err)
		}
		return
	}
	if stats.Cut > 0 {
		return // the deadline has passed, and open connections were counted
	}
	open, isKnown := openSockets(w.addrs)
	switch {
	case isKnown:
		left := open
		poll(ctx, socketPollInterval, func() bool {
			left, _ = openSockets(w.addrs)
			return left == 0
		})
		stats.Cut += left
		stats.Finished += max(open-left, 0)
	case w.prefork.server == nil:
		<-ctx.Done()
	}
}

// discardResults receives results, so that the goroutines of Serve functions can
// end.
func (w *worker) discardResults() {
	for range w.results {
	}
}

// poll calls isDone at each interval until it returns true or ctx ends.
func poll(ctx context.Context, interval time.Duration, isDone func() bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !isDone() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
