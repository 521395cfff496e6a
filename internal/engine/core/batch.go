//go:build linux && (amd64 || arm64)

package core

import (
	"os"
	"runtime"
	"sync"
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
	count atomic.Int32 // of entries; written with mu
	since atomic.Int64 // when the first one came, in clock.Nanos

	mu      sync.Mutex
	ring    *uring.Ring // nil: the kernel takes no sends any more
	entries [batchSize]heldOut
	output  *buf.Buffer          // of the entries, one after the other; nil: there are none
	looks   [batchSize]sock.Look // of the sockets of clients
	single  [1]uring.Failure
}

const (
	batchSize   = 64       // most responses in a batch
	batchOutput = 16 << 10 // their bytes
	longestHeld = 4 << 10  // bytes of one of them
	// batchPatience is how long a response waits for handlers that do not block, or a
	// little longer. Nanoseconds.
	batchPatience = 100_000
	// So few responses in batchPatience say that the time of handlers counts, not that of
	// sends: the next ones do not wait.
	fewResponses = 8
	sentPlainly  = 64
)

// A heldOut is an entry of a batch: a connection and its output, or what a client sends.
type heldOut struct {
	place      place
	client     *engine.Held // nil: it is a connection
	fd         int32        // < 0: it has ended
	gen        uint32
	expiry     uint32 // of the wait that follows
	parked     uint32 // its flags
	start, end int32  // in batch.output
}

// openBatches gives the loop its batches: together, the loops have one for each processor, or
// a few more. Without the descriptors there are none.
func (l *loop) openBatches() {
	if !l.driver.options.IOUring {
		return
	}
	loops := len(l.driver.loops)
	for range (runtime.GOMAXPROCS(0) + loops - 1) / loops {
		if ring, err := uring.Open(batchSize); err == nil {
			l.queue.batches = append(l.queue.batches, &batch{ring: ring})
		}
	}
}

// closeBatches is called when the loop has no workers any more. The batches stay, and take nothing.
func (l *loop) closeBatches() {
	for _, b := range l.queue.batches {
		b.mu.Lock()
		if b.ring != nil {
			b.ring.Close()
			b.ring = nil
		}
		b.mu.Unlock()
	}
}

// hasUnsent reports whether responses wait in a batch.
func (q *runQueue) hasUnsent() bool {
	for _, b := range q.batches {
		if b.count.Load() > 0 {
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
	w, d := c.worker, c.driver
	u := heldOut{place: c.place, fd: int32(c.fd), gen: c.gen, expiry: expiry, parked: uint32(parked)}
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
	if w.addHeld(&u, out) {
		return
	}
	if w.flushBatches(); w.addHeld(&u, out) { // many handlers were woken together
		return
	}
	n, errno := d.source.Send(int(u.fd), out, false)
	if n < len(out) {
		w.leaveRest(&u, out[n:], errno)
	} else if d.letGo(int(u.fd), u.place.slot(), parked, u.gen, expiry) {
		return
	}
	w.loop.queue.push(u.fd)
}

// addHeld adds an entry to a batch. The result false means that all are full or in use.
func (w *worker) addHeld(u *heldOut, out []byte) bool {
	if w.batch.add(u, out) {
		return true
	}
	for _, b := range w.loop.queue.batches {
		if b != w.batch && b.add(u, out) {
			return true
		}
	}
	return false
}

func (b *batch) add(u *heldOut, out []byte) (isAdded bool) {
	if b.mu.TryLock() {
		isAdded = b.addLocked(u, out)
		b.mu.Unlock()
	}
	return isAdded
}

func (b *batch) addLocked(u *heldOut, out []byte) bool {
	n := b.count.Load()
	if n == 0 {
		if b.ring == nil {
			return false
		}
		b.since.Store(clock.Nanos())
		b.output = buf.Get(batchOutput)
	}
	if n == batchSize || len(b.output.B)+len(out) > batchOutput {
		return false
	}
	u.start = int32(len(b.output.B))
	b.output.B = append(b.output.B, out...)
	u.end = int32(len(b.output.B))
	if u.client != nil {
		u.client.Wait()
	}
	b.entries[n] = *u
	b.count.Store(n + 1)
	return true
}

// isDue reports whether the batch must be sent before another handler runs, and whether
// handlers are slow.
func (b *batch) isDue() (isDue, isSlow bool) {
	n := b.count.Load()
	if n == 0 || n == batchSize {
		return n > 0, false
	}
	isDue = clock.Nanos()-b.since.Load() > batchPatience
	return isDue, isDue && n < fewResponses
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
		due, isSlow := b.isDue()
		if isDue = isDue || due; isSlow {
			q.plainly = sentPlainly
		}
	}
	return isDue
}

// sendBeforeWork sends what must not wait for the handler that w is about to run.
func (w *worker) sendBeforeWork() {
	q := &w.loop.queue
	if !w.mayHold {
		w.flushBatches()
		return
	}
	for _, b := range q.batches {
		isDue, isSlow := b.isDue()
		if isDue {
			w.claimed = w.claimed[:0]
			w.send(b)
			q.push(w.claimed...)
		}
		if isSlow {
			q.mu.Lock()
			q.plainly = sentPlainly
			q.mu.Unlock()
		}
	}
}

// flushBatches sends all batches.
func (w *worker) flushBatches() { w.loop.queue.push(w.sendBatches()...) }

// sendBatches sends all batches. It returns the connections that are to be queued, until w
// sends again.
func (w *worker) sendBatches() (claimed []int32) {
	w.claimed = w.claimed[:0]
	for _, b := range w.loop.queue.batches {
		if b.count.Load() > 0 {
			w.send(b)
		}
	}
	return w.claimed
}

// send sends the batch, and makes its connections idle. It adds those to w.claimed that have
// something to do. If another worker has the batch, that sends it, now or when it has added its
// entry: workers that waited for it would be replaced by others, which wait, too.
func (w *worker) send(b *batch) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	d := w.loop.driver
	n := b.count.Load()
	if n == 0 {
		return // another worker has sent it
	}
	for _, f := range b.submitLocked(d.source) {
		u := &b.entries[f.Token]
		if u.client != nil {
			u.client.End(engine.HeldCut, f.N, f.Errno)
			u.client, u.fd = nil, -1
			continue
		}
		w.leaveRest(u, b.outputLocked(u)[f.N:], f.Errno)
		w.claimed = append(w.claimed, u.fd)
		u.fd = -1
	}
	for i := range b.entries[:n] {
		u := &b.entries[i]
		switch {
		case u.client != nil:
			u.client.End(engine.HeldSent, 0, 0)
			u.client = nil
		case u.fd < 0:
		case !u.place.slot().release(uint64(u.parked)):
			w.claimed = append(w.claimed, u.fd)
		case u.expiry != 0 || d.life.Has(engine.StageShutDown):
			d.released(int(u.fd), u.place.slot(), u.gen, u.expiry)
		}
		u.place = place{}
	}
	b.output.Release()
	b.output = nil
	b.count.Store(0)
}

func (b *batch) outputLocked(u *heldOut) []byte { return b.output.B[u.start:u.end] }

// submitLocked sends, and returns what was not sent completely.
func (b *batch) submitLocked(source Source) []uring.Failure {
	entries := b.entries[:b.count.Load()]
	b.beginLocked(entries)
	if len(entries) == 1 { // a call of its own costs less
		if entries[0].fd < 0 {
			return nil
		}
		out := b.outputLocked(&entries[0])
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
	c := w.loop.driver.conn(u.place, int(u.fd))
	if errno != 0 && errno != syscall.EAGAIN {
		c.Fail(os.NewSyscallError("send", errno))
	}
	c.sendLater(rest)
}
