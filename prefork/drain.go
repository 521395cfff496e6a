package prefork

import (
	"context"
	"time"

	"github.com/sluicehttp/sluice/internal/supervise"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// drainPollInterval is how often a worker on its way out looks at its
	// connections, and socketPollInterval where that takes a walk over all
	// descriptors.
	drainPollInterval  = 5 * time.Millisecond
	socketPollInterval = 25 * time.Millisecond
	// stopLinger is IdleLinger where nobody takes over: a connection that was
	// accepted a moment ago has a request on its way.
	stopLinger = 50 * time.Millisecond
	// inboundPatience bounds the wait for connections that are on their way.
	inboundPatience = 100 * time.Millisecond
	// queuePatience bounds the wait until nothing waits in the sockets' queues.
	queuePatience = time.Second
)

// drain ends the worker as the master wishes.
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

// orphaned ends the worker after the master has died: nobody would replace it,
// and the sockets belong to the next master.
func (w *worker) orphaned() error {
	ctx, cancel := context.WithTimeout(context.Background(), w.link.OrphanGrace())
	defer cancel()
	succession, abandon := context.WithCancel(ctx)
	abandon()
	go w.heed(ctx, cancel, abandon)
	w.finish(ctx, succession)
	return nil
}

// heed carries out orders that come while the worker is on its way out. It calls
// abandon when there is no successor any more.
func (w *worker) heed(ctx context.Context, cancel, abandon func()) {
	orphaned := w.link.Orphaned()
	for {
		select {
		case <-ctx.Done():
			return
		case <-orphaned: // the successor, too
			orphaned = nil
			abandon()
			time.AfterFunc(w.link.OrphanGrace(), cancel)
		case o := <-w.link.Orders():
			switch o.Kind {
			case supervise.OrderQuit:
				cancel()
			case supervise.OrderDrain: // again: less time, or no successor any more
				if o.Grace > 0 { // or a signal, which knows of none
					time.AfterFunc(o.Grace, cancel)
				}
				if !o.HasSuccessor {
					abandon()
				}
			case supervise.OrderReopen:
				w.prefork.reopen()
				o.Ack() // a master that is gone wants none
			case supervise.OrderAdopt: // it asks somebody else when we are gone
				for _, f := range o.Files {
					f.Close()
				}
			case supervise.OrderRelease:
				o.Ack()
			}
		}
	}
}

// finish stops accepting and returns when all connections are closed, or ctx
// ends. Somebody takes connections over until succession ends.
func (w *worker) finish(ctx, succession context.Context) {
	hasSuccessor := succession.Err() == nil
	w.board.enter(shared.Draining)
	if !hasSuccessor {
		w.emptyQueues(ctx)
	}
	w.stopAccepting()
	if !hasSuccessor {
		w.awaitInbound(ctx)
	}
	w.link.StopReceiving(!hasSuccessor)
	go w.discardResults()
	if w.prefork.OnDrain != nil {
		w.prefork.OnDrain()
	}
	lingering, linger, stats := ctx, stopLinger, supervise.DrainStats{}
	if hasSuccessor {
		moving, cancel := context.WithTimeout(succession, w.prefork.idleLinger())
		stats.HandedOver = w.handOver(moving)
		cancel()
	}
	switch {
	case succession.Err() == nil:
		lingering, linger = succession, w.prefork.idleLinger()
	case hasSuccessor && ctx.Err() == nil:
		w.logf("there is no successor any more: connections end here")
		w.link.TakeBack()
	}
	lingering, cancel := context.WithTimeout(lingering, linger)
	defer cancel()
	w.finishServer(ctx, lingering, &stats)
	w.finishOthers(ctx, &stats)
	w.board.enter(shared.Stopped)
	w.say(stats)
}

// say tells the master that the worker is done. If the master is gone, the
// worker may be on its way out because of that (SIGTERM is how the kernel says
// so), and OnMasterDeath has to have been called before the process ends.
func (w *worker) say(stats supervise.DrainStats) {
	if w.link.Drained(stats) == nil {
		return
	}
	select {
	case <-w.mourned:
	case <-time.After(w.link.OrphanGrace()):
	}
}

// emptyQueues waits until everything that waits in the sockets is accepted:
// there is nobody else who would.
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

// awaitInbound waits for the connections that siblings have announced: nobody else
// would take them from the inbox. Who announced one may have died before he sent it.
func (w *worker) awaitInbound(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inboundPatience)
	defer cancel()
	poll(ctx, drainPollInterval, func() bool { return w.board.page.Get(shared.Inbound) == 0 })
}

// finishServer ends the connections of the server that New was given: busy ones
// after their response, idle ones when lingering ends.
func (w *worker) finishServer(ctx, lingering context.Context, stats *supervise.DrainStats) {
	s := w.prefork.server
	if s == nil {
		return
	}
	open := int(s.GetOpenConnectionsCount())
	s.CloseOnNextResponse()
	poll(lingering, drainPollInterval, func() bool {
		if s.GetOpenConnectionsCount() > 0 {
			return false
		}
		accepted, _ := openSockets(w.addrs) // the server may not know of all yet
		return accepted == 0
	})
	left := w.shutDown(ctx, stats)
	stats.Finished = max(open-left, 0)
}

// shutDown ends the server. Where ctx ends first, connections are cut: it counts
// them, hijacked ones too, before that begins, and returns how many were the
// server's.
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
	// It fails when end ends, and for listeners that are closed already.
	s.ShutdownWithContext(end)
	if !stop() { // it has begun
		<-end.Done()
	}
	return left
}

// finishOthers waits for connections that the server has no hold of: those of a
// Serve function that is not its own, and those that were hijacked.
func (w *worker) finishOthers(ctx context.Context, stats *supervise.DrainStats) {
	if drain := w.prefork.Drain; drain != nil {
		if err := drain(ctx); err != nil {
			w.logf("Drain: %v", err)
		}
		return
	}
	if stats.Cut > 0 {
		return // the time is over, and what is still open was counted
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

// discardResults lets Serve functions end.
func (w *worker) discardResults() {
	for range w.results {
	}
}

// poll calls isDone now and then until it returns true or ctx ends.
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
