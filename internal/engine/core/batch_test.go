//go:build linux && (amd64 || arm64)

package core

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/uring"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// needsRing skips the test where there is no io_uring.
func needsRing(t testing.TB) {
	t.Helper()
	if err := uring.Obstacle(); err != nil {
		t.Skip(err)
	}
}

// A batching is a worker with a batch, and connections that it has answered. Nothing runs.
type batching struct {
	*worker
	d     *driver
	peers map[int32]int // their other ends, by descriptor
}

func newBatching(t *testing.T, procs int) *batching {
	t.Helper()
	needsRing(t)
	d := swept()
	d.options.IOUring = true
	l := d.loops[0]
	l.openBatches(procs)
	l.queue.batches = l.queue.batches[:1]
	t.Cleanup(l.closeBatches)
	d.servings.Store(&[]*serving{{driver: d, acceptor: &script{}}})
	return &batching{&worker{loop: l, batch: l.queue.batches[0]}, d, make(map[int32]int)}
}

// connect returns a connection that is busy.
func (b *batching) connect(t *testing.T) int32 {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fds[0]); _ = syscall.Close(fds[1]) })
	b.d.table.open(fds[0]).slot().open(1, 0, flagAdded)
	fd := int32(fds[0])
	b.peers[fd] = fds[1]
	return fd
}

func (b *batching) slot(fd int32) *slot { return b.d.table.find(int(fd)).slot() }

// answer adds out, as a connection does that is about to be idle.
func (b *batching) answer(fd int32, out string) bool {
	return b.hold(b.slot(fd), fd, []byte(out))
}

// hold is answer without memory for it.
func (b *batching) hold(s *slot, fd int32, out []byte) bool {
	if !b.batch.takeFor(out) {
		return false
	}
	u := b.batch.add(out)
	u.slot, u.fd, u.gen = s, fd, 1
	b.batch.state.added()
	return true
}

// received returns what the peer of fd has got.
func (b *batching) received(fd int32) string {
	p := make([]byte, 1<<20)
	n, _ := syscall.Read(b.peers[fd], p)
	return string(p[:max(n, 0)])
}

// fill leaves the connection no room.
func (b *batching) fill(fd int32) {
	for n := 4096; n > 0; {
		if m, err := syscall.Write(int(fd), make([]byte, n)); m < n || err != nil {
			n /= 2
		}
	}
}

// While an answer is in a batch, its connection is busy. Then it is idle, or queued with what
// has happened meanwhile.
func TestBatchIsSent(t *testing.T) {
	b := newBatching(t, 1)
	for _, count := range []int{1, 2, b.batch.size} {
		var fds []int32
		for i := range count {
			fd := b.connect(t)
			fds = append(fds, fd)
			if !b.answer(fd, fmt.Sprint("answer ", i)) {
				t.Fatal("it is not taken")
			}
			b.slot(fd).deliver(1, [...]uint64{flagOutput, flagInput, flagPrompt, flagKill}[i%4])
			if got := b.received(fd); got != "" {
				t.Errorf("%q is sent at once", got)
			}
			if b.slot(fd).claim(flagExpired, 0) {
				t.Error("a connection in a batch is claimed")
			}
		}
		if count == b.batch.size && b.answer(b.connect(t), "too much") {
			t.Error("a batch without bounds")
		}
		claimed := b.sendBatches()
		for i, fd := range fds {
			if got, want := b.received(fd), fmt.Sprint("answer ", i); got != want {
				t.Errorf("%d of %d: %q, want %q", i, count, got, want)
			}
			isIdle := b.slot(fd).word.Load()&stateMask == stateIdle
			if want := i%4 == 0; isIdle != want || slices.Contains(claimed, fd) == want {
				t.Errorf("%d of %d: idle %v, claimed %v", i, count, isIdle, claimed)
			}
		}
		if b.loop.queue.hasUnsent() || b.loop.queue.batches[0].output != nil {
			t.Error("the batch is not empty")
		}
	}
}

// A worker without work lets those run whose handlers have been woken, before it sends.
func TestAnswersOfWokenHandlersAreGathered(t *testing.T) {
	if invariants.Enabled {
		t.Skip("with the race detector, the scheduler's order is random")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := newBatching(t, 1)
	q := &b.loop.queue
	q.workers, q.keep = 2, 2
	first, second := b.connect(t), b.connect(t)
	other := &worker{loop: b.loop, more: make(chan struct{}, 1)}
	b.more = make(chan struct{}, 1)
	var workers sync.WaitGroup
	var hasWaited atomic.Bool
	workers.Go(func() {
		b.answer(first, "first")
		workers.Go(func() { // it is runnable while the other one looks for work
			hasWaited.Store(b.received(first) == "")
			b.answer(second, "second")
			q.next(other)
		})
		q.next(b.worker)
	})
	for parked := 0; parked < 2; {
		runtime.Gosched()
		q.mu.Lock()
		parked = q.parked
		q.mu.Unlock()
	}
	if one, two := b.received(first), b.received(second); !hasWaited.Load() || one != "first" || two != "second" {
		t.Errorf("waited %v; %q, %q", hasWaited.Load(), one, two)
	}
	if q.isGathering || q.hasUnsent() {
		t.Error("something is left")
	}
	q.close()
	workers.Wait()
}

// While a worker lets the others run, handlers may compute for long: what is due is sent by the
// next worker without work, and the next answers do not wait.
func TestGatheredAnswersAreDue(t *testing.T) {
	b := newBatching(t, 1)
	q := &b.loop.queue
	q.keep, q.isGathering = 2, true
	fd := b.connect(t)
	b.answer(fd, "answer")
	since := &q.batches[0].since
	var workers sync.WaitGroup
	for parked, want := range []string{"", "answer"} {
		if want == "" {
			since.Add(int64(time.Hour)) // it has just come
		} else {
			since.Add(-int64(time.Hour) - batchPatience - 1)
		}
		idle := &worker{loop: b.loop, more: make(chan struct{}, 1)}
		workers.Go(func() { q.next(idle) })
		eventually(t, "the worker is idle", func() bool { _, n := q.counts(); return n == parked+1 })
		if got := b.received(fd); got != want {
			t.Errorf("%q is sent, want %q", got, want)
		}
	}
	if q.plainly != sentPlainly {
		t.Errorf("%d answers do not wait, want %d", q.plainly, sentPlainly)
	}
	q.close()
	workers.Wait()
}

// Where there are several Ps, a batch holds few answers: what it holds waits while the kernel lets
// another program run in place of the worker.
func TestSizeOfBatches(t *testing.T) {
	for procs, want := range map[int]int{1: batchSize, 2: sharedSize, 8: sharedSize} {
		b := newBatching(t, procs)
		taken := 0
		for b.answer(b.connect(t), "answer") {
			taken++
		}
		if pace := b.batch.pace(); taken != want || pace != paceDue {
			t.Errorf("GOMAXPROCS=%d: a batch takes %d answers, and then its pace is %d; want %d and %d", procs, taken, pace, want, paceDue)
		}
		b.sendBatches()
	}
}

// More answers come than a batch holds, before a worker looks for work: the batch is sent, and the
// next one begun.
func TestFullBatchIsSent(t *testing.T) {
	b := newBatching(t, 1)
	var fds []int32
	for i := range b.batch.size + 1 {
		fd := b.connect(t)
		fds = append(fds, fd)
		c := b.d.conn(b.d.table.find(int(fd)), int(fd))
		c.attach(b.worker)
		c.Out = append(c.Out[:0], fmt.Sprint("answer ", i)...)
		c.hold(0, false, 0)
	}
	if n := b.loop.queue.batches[0].state.count(); n != 1 {
		t.Errorf("%d answers in the batch, want 1", n)
	}
	b.sendBatches()
	for i, fd := range fds {
		if got, want := b.received(fd), fmt.Sprint("answer ", i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A batch takes no more bytes than it has room for.
func TestBatchIsBoundedInBytes(t *testing.T) {
	b := newBatching(t, 1)
	out, taken := string(make([]byte, longestHeld)), 0
	for b.answer(b.connect(t), out) {
		taken++
	}
	if taken != batchOutput/longestHeld {
		t.Errorf("%d answers of %d bytes are taken", taken, longestHeld)
	}
	b.sendBatches()
	for fd := range b.peers {
		b.slot(fd).word.Store(0)
	}
}

// The rest of an answer waits with its connection for room, and a connection that has failed
// knows why, whether the batch has one answer or several.
func TestBatchWithFailures(t *testing.T) {
	for _, others := range []int{0, 1, 20} {
		b := newBatching(t, 1)
		full, broken := b.connect(t), b.connect(t)
		b.fill(full)
		_ = syscall.Close(b.peers[broken])
		for fd, check := range map[int32]func(*conn) bool{
			full:   func(c *conn) bool { return c.Err == nil && c.isBlocked() && string(c.Out) == "answer" },
			broken: func(c *conn) bool { return errors.Is(c.Err, syscall.EPIPE) && c.isBlocked() },
		} {
			var fds []int32
			for i := range others {
				fds = append(fds, b.connect(t))
				if i%2 == 0 {
					b.answer(fds[i], "other")
				}
			}
			b.answer(fd, "answer")
			for i, fd := range fds {
				if i%2 == 1 {
					b.answer(fd, "other")
				}
			}
			if claimed := b.sendBatches(); !slices.Equal(claimed, []int32{fd}) {
				t.Errorf("%d others: %v are claimed, want %d", others, claimed, fd)
			}
			c := b.d.table.find(int(fd)).conn().Load()
			if c == nil || !check(c) || c.pendingOut == nil || c.loop != b.loop {
				t.Errorf("%d others: the conn is %+v", others, c)
			}
			if word := b.slot(fd).word.Load(); word&stateMask != stateBusy {
				t.Errorf("%d others: the slot is %b", others, word)
			}
			for _, fd := range fds {
				if got := b.received(fd); got != "other" {
					t.Errorf("%d others: one got %q", others, got)
				}
			}
		}
		if n := b.loop.held.Load(); n != 2 {
			t.Errorf("%d buffers are counted, want 2", n)
		}
	}
}

// replaceRings makes the descriptors of all rings those of another file.
func replaceRings(t *testing.T) {
	t.Helper()
	other, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.Contains(target, "io_uring") {
			fd, _ := strconv.Atoi(f.Name())
			if err := syscall.Dup3(int(other.Fd()), fd, syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// When the kernel takes no sends any more, nothing is lost, and nothing waits again.
func TestBatchWithoutRing(t *testing.T) {
	b := newBatching(t, 1)
	fds := []int32{b.connect(t), b.connect(t)}
	for _, fd := range fds {
		b.answer(fd, "answer")
	}
	replaceRings(t)
	if claimed := b.sendBatches(); !slices.Equal(claimed, fds) {
		t.Errorf("%v are claimed, want %v", claimed, fds)
	}
	for _, fd := range fds {
		if c := b.d.table.find(int(fd)).conn().Load(); c == nil || string(c.Out) != "answer" || c.Err != nil {
			t.Errorf("the conn is %+v", c)
		}
	}
	if b.answer(b.connect(t), "later") {
		t.Error("a batch without a ring takes an answer")
	}
}

// To add an answer and to send it allocates nothing.
func TestBatchDoesNotAllocate(t *testing.T) {
	b := newBatching(t, 1)
	fds := []int32{b.connect(t), b.connect(t), b.connect(t)}
	out, room := []byte("answer"), make([]byte, 64)
	slots := make([]*slot, len(fds))
	for i, fd := range fds {
		slots[i] = b.slot(fd)
	}
	if n := testing.AllocsPerRun(200, func() {
		for i, fd := range fds {
			slots[i].claim(0, 0)
			if !b.hold(slots[i], fd, out) {
				t.Error("it is not taken")
			}
		}
		b.sendBatches()
		for _, fd := range fds {
			if n, _ := syscall.Read(b.peers[fd], room); n != len(out) {
				t.Errorf("%d bytes", n)
			}
		}
	}); n >= 1 { // the race detector makes pools lose buffers
		t.Errorf("%v allocations", n)
	}
}

// A worker lets output wait only while there is a spare worker, which would send it.
func TestHoldingNeedsASpareWorker(t *testing.T) {
	for _, c := range []struct {
		name          string
		limit, queued int
		mayHold       []bool
	}{
		{"one connection", 0, 1, []bool{false}},
		{"several", 0, 3, []bool{true, true, true}},
		{"no other worker is allowed", 1, 3, []bool{false, false, false}},
		{"one more is", 2, 3, []bool{true, true, true}},
	} {
		q := &runQueue{batches: []*batch{{}}}
		var started []*worker
		q.init(c.limit, time.Second, func(w *worker) { started = append(started, w) })
		for fd := range c.queued {
			q.ready.push(int32(fd))
		}
		q.push(int32(c.queued - 1))
		q.ready.pop()
		for i, want := range c.mayHold {
			if _, ok := q.next(started[0]); !ok || started[0].mayHold != want {
				t.Errorf("%s, connection %d: mayHold is %v", c.name, i, !want)
			}
		}
		q.close()
	}
}

// An answer that is due, and those after it, are sent before the next handler runs.
func TestBatchIsDue(t *testing.T) {
	b := newBatching(t, 1)
	b.mayHold = true
	fd := b.connect(t)
	b.answer(fd, "answer")
	since := &b.loop.queue.batches[0].since
	since.Add(int64(time.Hour)) // it has just come
	b.sendBeforeWork()
	if got := b.received(fd); got != "" {
		t.Errorf("%q, before it is due", got)
	}
	since.Add(-int64(time.Hour) - batchPatience - 1)
	b.sendBeforeWork()
	if got := b.received(fd); got != "answer" {
		t.Errorf("%q, though it is due", got)
	}
	b.slot(fd).claim(0, 0)
	b.answer(fd, "another")
	b.mayHold = false
	b.sendBeforeWork()
	if got := b.received(fd); got != "another" {
		t.Errorf("%q, though there is no spare worker", got)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		answers int
		waited  int64
		want    pace
	}{
		{1, 0, paceQuick},
		{1, quickHandler - 1, paceQuick},
		{1, quickHandler, paceUsual},
		{12, 12*quickHandler - 1, paceQuick},
		{12, 12 * quickHandler, paceUsual},
		{fewResponses - 1, batchPatience, paceUsual},
		{fewResponses - 1, batchPatience + 1, paceSlow},
		{fewResponses, batchPatience + 1, paceDue},
		{batchSize - 1, batchPatience + 1, paceDue},
	} {
		if got := paceOf(c.answers, c.waited); got != c.want {
			t.Errorf("%d answers in %d ns: %d, want %d", c.answers, c.waited, got, c.want)
		}
	}
}

// While handlers are quick, some run without a look at the clock, but no more than quickInARow.
func TestLooksAtTheClock(t *testing.T) {
	b := newBatching(t, 1)
	b.mayHold = true
	fd := b.connect(t)
	b.answer(fd, "answer")
	since := &b.loop.queue.batches[0].since
	since.Add(int64(time.Hour)) // it has just come
	for range 2 {
		if !b.mustLook() {
			t.Fatal("the first handler runs without a look")
		}
		b.sendBeforeWork()
		for range quickInARow {
			if b.mustLook() {
				t.Error("a look before each of them")
			}
		}
	}
	b.sendBeforeWork()
	b.mayHold = false
	if !b.mustLook() {
		t.Error("without a spare worker, an answer waits")
	}
	b.mayHold, b.unlooked = true, 0
	since.Add(-int64(time.Hour) - quickHandler)
	b.sendBeforeWork()
	if b.unlooked != 0 {
		t.Error("handlers that are not quick run without a look")
	}
	b.sendBatches()
	if b.mustLook() {
		t.Error("nothing waits")
	}
}

// A worker does not wait for a batch that another one has, and not even looks for it again.
func TestBatchInUseIsLeftAlone(t *testing.T) {
	b := newBatching(t, 1)
	q := &b.loop.queue
	fd := b.connect(t)
	b.answer(fd, "answer")
	count, ok := q.batches[0].state.take()
	if !ok || count != 1 {
		t.Fatalf("%d answers, taken %v", count, ok)
	}
	b.sendBatches()
	if b.answer(b.connect(t), "another") {
		t.Error("a batch in use takes an answer")
	}
	ended := make(chan bool)
	idle := &worker{loop: b.loop, more: make(chan struct{}, 1)}
	go func() {
		_, _ = q.next(idle)
		close(ended)
	}()
	eventually(t, "the worker is idle", func() bool { _, parked := q.counts(); return parked == 1 })
	q.batches[0].state.give(count)
	if got := b.received(fd); got != "" {
		t.Errorf("%q is sent by a worker that has not got the batch", got)
	}
	q.close()
	<-ended
	b.sendBatches()
	if got := b.received(fd); got != "answer" {
		t.Errorf("then it got %q", got)
	}
}

// Where handlers are slow, little waits: each response would wait for the next handler.
func TestSlowHandlersKeepFewAnswers(t *testing.T) {
	b := newBatching(t, 1)
	q := &b.loop.queue
	q.start = func(*worker) {}
	mayHold := func() bool {
		q.push(1, 2)
		_, _ = q.next(b.worker)
		may := b.mayHold
		_, _ = q.next(b.worker)
		return may
	}
	q.isSpare = true
	if !mayHold() {
		t.Fatal("nothing may wait")
	}
	for _, answers := range []int{fewResponses, fewResponses - 1} {
		var fds []int32
		for range answers {
			fds = append(fds, b.connect(t))
			b.answer(fds[len(fds)-1], "answer")
		}
		q.batches[0].since.Add(-batchPatience - 1)
		b.mayHold = true
		b.sendBeforeWork()
		for _, fd := range fds {
			if got := b.received(fd); got != "answer" {
				t.Errorf("%q, though it is due", got)
			}
		}
		if got, want := mayHold(), answers == fewResponses; got != want {
			t.Errorf("after %d answers in the time of a batch, the next may wait: %v", answers, got)
		}
	}
	for range sentPlainly {
		mayHold()
	}
	if !mayHold() {
		t.Error("nothing waits any more")
	}
}

// batched has an engine with batches serve ln until the test ends.
func batched(t *testing.T, ln net.Listener, a engine.Acceptor) *driver {
	t.Helper()
	needsRing(t)
	return serveOn(t, ln, a, engine.Options{Loops: 1, IOUring: true})
}

// Handlers that block do not keep what others have answered.
func TestBlockedHandlersKeepNoAnswer(t *testing.T) {
	gate := make(chan bool)
	blockedKeepNoAnswer(t, 50, func() { <-gate }, func() { gate <- true })
}

// The scheduler does not see at once that a system call blocks, and has no other P.
func TestBlockedSystemCallsKeepNoAnswer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	blockedKeepNoAnswer(t, 10, func() { _, _ = syscall.Read(pipe[0], make([]byte, 1)) }, func() { _, _ = syscall.Write(pipe[1], []byte{0}) })
}

// blockedKeepNoAnswer has handlers call block, and release once for each when all others are answered.
func blockedKeepNoAnswer(t *testing.T, rounds int, block, release func()) {
	const clients = 16
	var blocked atomic.Int32
	ln := listen(t)
	d := batched(t, ln, &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		in := inputOf(c)
		if in == "block" {
			blocked.Add(1)
			block()
		}
		return append(out, in...), engine.Read
	}})
	all := make([]net.Conn, clients)
	for i := range all {
		all[i] = dial(t, ln)
		ask(t, all[i], "first")
	}
	for round := range rounds {
		eventually(t, "all are idle", func() bool { return d.Stats().Active == 0 })
		blocked.Store(0)
		blocks := func(i int) bool { return i == round%clients || i == round*7%clients }
		count := int32(0)
		for i, c := range all {
			if blocks(i) {
				count++
				send(t, c, "block")
			} else {
				send(t, c, "quick")
			}
		}
		for i, c := range all {
			if !blocks(i) {
				expect(t, c, "quick") // while the others are blocked
			}
		}
		eventually(t, "the others are blocked", func() bool { return blocked.Load() == count })
		for range count {
			release()
		}
		for i, c := range all {
			if blocks(i) {
				expect(t, c, "block")
			}
		}
	}
}

// Peers that stop reading get all of their answers in the end, in order, whether these waited
// in batches, or in their connections for room.
func TestReadersThatStop(t *testing.T) {
	const clients, requests, copies = 8, 6000, 12 // more than a unix socket holds
	request := func(client, i int) []byte { return fmt.Appendf(nil, "%02d%06d", client, i) }
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	d := batched(t, ln, &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		in := c.Buffered()[:8]
		for range copies {
			out = append(out, in...)
		}
		c.Discard(8)
		return out, engine.Read
	}})
	all := make([]net.Conn, clients)
	var writing sync.WaitGroup
	for i := range all {
		c, err := net.Dial("unix", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all[i] = c
		writing.Go(func() {
			for n := range requests {
				if _, err := c.Write(request(i, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	eventually(t, "all wait for room", func() bool { return d.Loops()[0].Buffers >= clients })
	for i, c := range all {
		in := bufio.NewReader(c)
		got := make([]byte, 8*copies)
		for n := range requests {
			if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, bytes.Repeat(request(i, n), copies)) {
				t.Fatalf("client %d, answer %d: %q, %v", i, n, got, err)
			}
		}
	}
	writing.Wait()
}
