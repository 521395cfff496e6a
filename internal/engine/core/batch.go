//go:build linux && (amd64 || arm64)

package core

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"github.com/sluicehttp/sluice/internal/engine/uring"
)

// A batch holds responses of several connections, which one system call sends. What must
// hold:
//
//   - Only the output of a connection that is about to be idle waits, and is all that it has:
//     see canHold. The connection has no worker any more, but its slot stays busy. So no worker
//     claims it, closes its descriptor or writes to it, and what is delivered to it is noted
//     in its slot. The worker that sends the batch owns it meanwhile, and makes it idle or
//     queues it.
//   - A handler may block, and must not keep what others have answered. While there is
//     something in a batch of the loop, a spare worker is runnable, or a worker is about to
//     look at the queue: see runQueue.next. One that finds no work, or ends, sends all
//     batches, unless another one is about to (gatherLocked). So does one that has found work
//     but cannot have a spare worker. If the handler blocks in a system call that the scheduler
//     does not wait for itself, and has the only P, the spare runs when that is taken from it.
//   - A connection that has failed, or whose peer does not take everything, becomes one that
//     waits for room and is queued (leaveRest): sending runs no code of a protocol.
//
// Workers share the batches, and never wait for one. Each begins with another one; if that is
// in use, it takes the next, and it sends the output itself if all are.
type batch struct {
	state batchState
	since atomic.Int64 // when the first entry came, in clock.Nanos
	size  int          // most entries

	// Who has taken the batch owns these.
	ring    *uring.Ring // nil: the kernel takes no sends any more
	output  *buf.Buffer // of the entries, one after the other; nil: there are none
	clients int         // entries of clients
	entries [batchSize]heldOut
	looks   [batchSize]sock.Look // of the sockets of clients
	single  [1]uring.Failure
}

// A batchState is twice the number of entries, plus 1 while the batch is taken. It is a lock for
// which no goroutine waits.
type batchState struct{ atomic.Int32 }

func (s *batchState) count() int { return int(s.Load() >> 1) }

// take takes the batch, unless it is taken.
func (s *batchState) take() (count int, ok bool) {
	word := s.Load()
	return int(word >> 1), word&1 == 0 && s.CompareAndSwap(word, word|1)
}

// give ends what take has begun.
func (s *batchState) give(count int) { s.Store(int32(count) << 1) }

// added is give after one entry was added.
func (s *batchState) added() { s.Store(s.Load() + 1) }

const (
	batchSize   = 64       // most responses in a batch
	sharedSize  = 8        // the same with several Ps: see openBatches
	batchOutput = 16 << 10 // their bytes
	longestHeld = 4 << 10  // bytes of one of them
	// batchPatience is how long a response waits for handlers that do not block, or a
	// little longer. Nanoseconds.
	batchPatience = 100_000
	// So few responses in batchPatience say that the time of handlers counts, not that of
	// sends: the next ones do not wait.
	fewResponses = 8
	sentPlainly  = 64
	// A worker whose handlers take less than quickHandler on the average, in nanoseconds, runs
	// quickInARow of them without a look at the clock: so the next ones wait for as many that are
	// not quick, at most.
	quickHandler = batchPatience / 16
	quickInARow  = 3
)

// A heldOut is an entry of a batch: a connection and its output, or what a client sends.
type heldOut struct {
	slot       *slot        // of the connection
	client     *engine.Held // nil: it is a connection
	fd         int32        // < 0: it has ended
	gen        uint32
	expiry     uint32 // of the wait that follows
	parked     uint32 // its flags
	start, end int32  // in batch.output
}

// openBatches gives the loop its batches: together, the loops have one for each of the scheduler's Ps, or
// a few more. Without the descriptors there are none. With several Ps they are small: if the kernel
// stops a worker for another program, its batch waits for a time slice, some 4 ms, though another
// worker runs.
func (l *loop) openBatches(procs int) {
	if !l.driver.options.IOUring {
		return
	}
	loops, size := len(l.driver.loops), batchSize
	if procs > 1 {
		size = sharedSize
	}
	for range (procs + loops - 1) / loops {
		if ring, err := uring.Open(size); err == nil {
			l.queue.batches = append(l.queue.batches, &batch{ring: ring, size: size})
		}
	}
}

// closeBatches is called when the loop has no workers any more. The batches stay, and take nothing.
func (l *loop) closeBatches() {
	for _, b := range l.queue.batches {
		count, ok := b.state.take()
		for ; !ok; count, ok = b.state.take() { // by a client
			runtime.Gosched()
		}
		if b.ring != nil {
			b.ring.Close()
			b.ring = nil
		}
		b.state.give(count)
	}
}

// hasUnsent reports whether responses wait in a batch.
func (q *runQueue) hasUnsent() bool {
	for _, b := range q.batches {
		if b.state.count() > 0 {
			return true
		}
	}
	return false
}

// canHold reports whether Out may wait in a batch, before the connection waits for input. Out
// is all that there is to send, all input is read, and no event but input has made the
// connection busy.
func (c *conn) canHold() bool {
	if !c.worker.mayHold || c.After != engine.Read || !c.isDrained || len(c.Out) == 0 || len(c.Out) > longestHeld || len(c.Unread) > 0 || c.hasFile() {
		return false
	}
	if !c.isUsual && (c.tlsConn != nil || c.pendingOut != nil || c.stalledSince != 0 || c.phase != phaseOpen || c.taker != nil) {
		return false
	}
	return c.slot().word.Load()&(flagAdded|flagGone|flagKill) == flagAdded
}

// sendHeld sends the output that canHold has left.
func (c *conn) sendHeld() {
	c.isHeld = false
	c.flush(engine.Read)
}

// hold is the end of park for an idle connection whose output waits. isFree says that it
// needs no conn.
func (c *conn) hold(parked uint64, isFree bool, expiry uint32) {
	w, s, fd, gen := c.worker, c.slot(), int32(c.fd), c.gen
	out := c.Out // in the worker's buffer, which no other connection gets meanwhile
	c.isHeld, c.Out = false, c.Out[:0]
	if !isFree || !c.isUsual { // otherwise rest does it
		c.detach()
	}
	if isFree {
		c.hide()
		w.keep(c)
	} else {
		c.show()
	}
	b := w.batch
	if !b.takeFor(out) {
		if b = w.takeAnother(out); b == nil {
			w.sendOne(heldOut{slot: s, fd: fd, gen: gen, expiry: expiry, parked: uint32(parked)}, out)
			return
		}
	}
	u := b.add(out)
	u.slot, u.fd, u.gen, u.expiry, u.parked = s, fd, gen, expiry, uint32(parked)
	b.state.added()
}

// takeAnother is takeFor for the batches that w does not fill first, and then for all, which it has sent
// meanwhile: many handlers were woken together. The result nil means that all are taken.
func (w *worker) takeAnother(out []byte) *batch {
	for hasSent := false; ; hasSent = true {
		for _, b := range w.loop.queue.batches {
			if b.takeFor(out) {
				return b
			}
		}
		if hasSent {
			return nil
		}
		w.flushBatches()
	}
}

// sendOne sends the output of an idle connection, for which there is no batch.
func (w *worker) sendOne(u heldOut, out []byte) {
	d := w.loop.driver
	n, errno := d.source.Send(int(u.fd), out, false)
	if n < len(out) {
		w.leaveRest(&u, out[n:], errno)
	} else if d.letGo(int(u.fd), u.slot, uint64(u.parked), u.gen, u.expiry) {
		return
	}
	w.loop.queue.push(u.fd)
}

// takeFor takes the batch if it has room for out.
func (b *batch) takeFor(out []byte) bool {
	n, ok := b.state.take()
	if !ok {
		return false
	}
	if n == 0 && !b.begin() || n == b.size || len(b.output.B)+len(out) > batchOutput {
		b.state.give(n)
		return false
	}
	return true
}

// add adds out, and returns its entry, which the caller completes. takeFor was called before, and
// state.added follows.
func (b *batch) add(out []byte) *heldOut {
	u, all := &b.entries[b.state.count()], b.output.B
	u.start, u.end = int32(len(all)), int32(len(all)+len(out))
	b.output.B = append(all, out...)
	return u
}

// begin prepares an empty batch for the first entry. It returns false if the kernel takes no sends
// any more.
func (b *batch) begin() bool {
	if b.ring == nil {
		return false
	}
	b.since.Store(clock.Nanos())
	b.output = buf.Get(batchOutput)
	return true
}

// A pace says how long a batch has waited.
type pace uint8

const (
	paceQuick pace = iota // handlers are so quick that some run without another look at the clock
	paceUsual
	paceDue  // the batch must be sent before another handler runs
	paceSlow // it must, and handlers are slow
)

// pace looks at the clock.
func (b *batch) pace() pace {
	switch n := b.state.count(); n {
	case 0:
		return paceQuick
	case b.size:
		return paceDue
	default:
		return paceOf(n, clock.Nanos()-b.since.Load())
	}
}

// paceOf returns the pace of a batch with n entries whose first one has waited so many nanoseconds.
func paceOf(n int, waited int64) pace {
	switch {
	case waited > batchPatience && n < fewResponses:
		return paceSlow
	case waited > batchPatience:
		return paceDue
	case waited < int64(n)*quickHandler:
		return paceQuick
	}
	return paceUsual
}

// mayHoldLocked reports whether the output of the connection that a worker gets now may wait;
// mu is held.
func (q *runQueue) mayHoldLocked() bool {
	if len(q.batches) == 0 || !q.isSpare {
		return false
	}
	if q.plainly > 0 {
		q.plainly--
		return false
	}
	return true
}

// othersRunLocked reports whether handlers may have been woken that have waited for something:
// some workers are neither idle nor the spare. The caller is not one of them.
func (q *runQueue) othersRunLocked() bool { return q.busyLocked() > 1 }

// sparesSendersLocked reports whether an idle worker is made the spare although nothing is
// queued: while handlers wait, it sends what they and their clients leave.
func (q *runQueue) sparesSendersLocked() bool {
	return len(q.batches) > 0 && q.plainly == 0 && q.idle != nil && q.othersRunLocked()
}

// gatherLocked lets the workers run whose handlers have been woken, as a rule by the same look
// at the network: their responses are sent together with the others. mu is not held meanwhile.
// Workers that find no work then need not send, for the caller does, unless the handlers take long.
func (q *runQueue) gatherLocked() {
	q.isGathering = true
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	q.isGathering = false
	q.isDueLocked()
}

// isDueLocked reports whether a batch is due. If handlers are slow, the next responses do not wait.
func (q *runQueue) isDueLocked() (isDue bool) {
	for _, b := range q.batches {
		p := b.pace()
		if isDue = isDue || p >= paceDue; p == paceSlow {
			q.plainly = sentPlainly
		}
	}
	return isDue
}

// mustLook reports whether something may have to be sent before w runs a handler.
func (w *worker) mustLook() bool {
	if w.unlooked > 0 && w.mayHold {
		w.unlooked--
		return false
	}
	return w.loop.queue.hasUnsent()
}

// sendBeforeWork sends what must not wait for the handler that w is about to run.
func (w *worker) sendBeforeWork() {
	q := &w.loop.queue
	if !w.mayHold {
		w.flushBatches()
		return
	}
	isQuick := true
	for _, b := range q.batches {
		p := b.pace()
		isQuick = isQuick && p == paceQuick
		if p >= paceDue {
			w.claimed = w.claimed[:0]
			w.send(b)
			q.push(w.claimed...)
		}
		if p == paceSlow {
			q.mu.Lock()
			q.plainly = sentPlainly
			q.mu.Unlock()
		}
	}
	if isQuick {
		w.unlooked = quickInARow
	}
}

// flushBatches sends all batches.
func (w *worker) flushBatches() { w.loop.queue.push(w.sendBatches()...) }

// sendBatches sends all batches. It returns the connections that are to be queued, until w
// sends again.
func (w *worker) sendBatches() (claimed []int32) {
	w.claimed = w.claimed[:0]
	for _, b := range w.loop.queue.batches {
		if b.state.count() > 0 {
			w.send(b)
		}
	}
	return w.claimed
}

// send sends the batch, and makes its connections idle. It adds those to w.claimed that have
// something to do. If another worker has the batch, that sends it, now or when it has added its
// entry: workers that waited for it would be replaced by others, which wait, too.
func (w *worker) send(b *batch) {
	n, ok := b.state.take()
	if !ok {
		return
	}
	if n > 0 { // otherwise another worker has sent it
		w.sendTaken(b, b.entries[:n])
	}
	b.state.give(0)
}

// sendTaken is the part of send for which the batch is taken.
func (w *worker) sendTaken(b *batch, entries []heldOut) {
	d := w.loop.driver
	for _, f := range b.submit(d.source, entries) {
		u := &entries[f.Token]
		if u.client != nil {
			u.client.End(engine.HeldCut, f.N, f.Errno)
			u.client, u.fd = nil, -1
			continue
		}
		w.leaveRest(u, b.outputOf(u)[f.N:], f.Errno)
		w.claimed = append(w.claimed, u.fd)
		u.fd = -1
	}
	for i := range entries {
		u := &entries[i]
		switch {
		case u.client != nil:
			u.client.End(engine.HeldSent, 0, 0)
			u.client = nil
		case u.fd < 0:
		case !u.slot.release(uint64(u.parked)):
			w.claimed = append(w.claimed, u.fd)
		case u.expiry != 0 || d.life.Has(engine.StageShutDown):
			d.released(int(u.fd), u.slot, u.gen, u.expiry)
		}
		u.slot = nil
	}
	b.output.Release()
	b.output, b.clients = nil, 0
}

func (b *batch) outputOf(u *heldOut) []byte { return b.output.B[u.start:u.end] }

// submit sends, and returns what was not sent completely.
func (b *batch) submit(source Source, entries []heldOut) []uring.Failure {
	if b.clients > 0 {
		b.beginClients(entries)
	}
	if len(entries) == 1 { // a call of its own costs less
		if entries[0].fd < 0 {
			return nil
		}
		out := b.outputOf(&entries[0])
		n, errno := source.Send(int(entries[0].fd), out, false)
		if n == len(out) {
			return nil
		}
		b.single[0] = uring.Failure{N: n, Errno: errno}
		return b.single[:]
	}
	output := b.output.B
	for i := range entries {
		if u := &entries[i]; u.fd >= 0 {
			b.ring.Add(int(u.fd), output[u.start:u.end], uint32(i))
		}
	}
	failed, works := b.ring.Submit()
	if !works {
		b.ring.Close()
		b.ring = nil
	}
	return failed
}

// leaveRest makes the connection one that waits for room, with the rest of its output, or
// that has failed with errno. The caller must queue it.
func (w *worker) leaveRest(u *heldOut, rest []byte, errno syscall.Errno) {
	d := w.loop.driver
	c := d.conn(d.table.find(int(u.fd)), int(u.fd))
	if errno != 0 && errno != syscall.EAGAIN {
		c.Fail(os.NewSyscallError("send", errno))
	}
	c.sendLater(rest)
}
