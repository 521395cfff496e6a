package supervise

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// hasInboxes: workers can pass connections to each other.
const hasInboxes = true

const (
	// inboxBuffer is the requested size of an inbox. The system gives an unprivileged
	// process less: room for some hundred parcels.
	inboxBuffer = 8 << 20
	// postInterval is the longest time between two attempts of a waiting Post.
	postInterval = 20 * time.Millisecond
	// postPause is the pause if the limit that was hit is not the socket's own.
	postPause = time.Millisecond
)

// newInboxPair makes a slot's inbox. Processes share both ends, so nothing relies on
// their flags: each call says itself that it does not wait.
func newInboxPair() (*inboxPair, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// The system bounds the size silently, and lets only a privileged process go beyond.
	unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_SNDBUF, inboxBuffer)
	unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, inboxBuffer)
	return &inboxPair{rx: holdDescriptor(pair[0], "inbox"), tx: holdDescriptor(pair[1], "outbox")}, nil
}

// isInbox reports whether fd may be an end of an inbox.
func isInbox(fd int) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return false
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && domain == unix.AF_UNIX
}

// receiving reports whether a worker receives parcels.
type receiving uint8

const (
	receivingNot receiving = iota
	receivingNow
	receivingOver
)

// inboxes is what a worker knows of the inboxes of all slots.
type inboxes struct {
	logger Logger
	own    int

	// peers are the sending ends by slot, -1 where there is none. They are never
	// closed. The poller does not know them: an inbox that empties would wake every
	// worker.
	peers atomic.Pointer[[]int]

	mu      sync.Mutex
	state   receiving
	take    func(fd int, payload []byte)
	taking  sync.Mutex  // held while take runs
	waiting map[int]int // receiving ends that wait for Receive, by slot
	readers map[int]*reader
	reading sync.WaitGroup // readers that run
}

// begin initialises b. It is called first, and only in a worker that has a master.
func (b *inboxes) begin(slot int, logger Logger) {
	b.own, b.logger = slot, logger
	b.waiting, b.readers = make(map[int]int), make(map[int]*reader)
}

// open finds the inboxes that hello lists among the descriptors from first on.
// Without inboxes of its own a worker may still adopt those of other slots.
func (b *inboxes) open(hello layout, first int) {
	if len(hello.Inboxes) == 0 {
		return
	}
	for fd := first; fd <= first+len(hello.Inboxes); fd++ {
		if !isInbox(fd) {
			return // a Start function did not pass it on
		}
		unix.CloseOnExec(fd)
	}
	b.waiting[hello.Slot] = first
	for i, slot := range hello.Inboxes {
		b.addPeer(slot, first+1+i)
	}
}

// addPeer takes ownership of the sending end for slot.
func (b *inboxes) addPeer(slot, fd int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var peers []int
	if old := b.peers.Load(); old != nil {
		peers = append(peers, *old...)
	}
	for len(peers) <= slot {
		peers = append(peers, -1)
	}
	if peers[slot] >= 0 {
		unix.Close(fd) // it is known already
		return
	}
	peers[slot] = fd
	b.peers.Store(&peers)
}

// slots is Worker.Slots.
func (b *inboxes) slots() int {
	if peers := b.peers.Load(); peers != nil {
		return len(*peers)
	}
	return 0
}

// post is Worker.Post.
func (b *inboxes) post(slot, fd int, payload []byte, wait time.Duration) error {
	if len(payload) > maxPayload {
		return ErrParcelSize
	}
	peers := b.peers.Load()
	if peers == nil || slot < 0 || slot >= len(*peers) || (*peers)[slot] < 0 {
		return ErrNoInbox
	}
	to := (*peers)[slot]
	packet := appendMessage(make([]byte, 0, headSize+len(payload)), message{kind: messageParcel, slot: uint16(b.own), payload: payload})
	defer clear(packet) // the payload may be secret
	rights := unix.UnixRights(fd)
	var deadline time.Time
	for {
		err := unix.Sendmsg(to, packet, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			return nil
		case unix.EMSGSIZE:
			return ErrParcelSize
		case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.ETOOMANYREFS:
		default:
			return err
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(wait)
		}
		if !now.Before(deadline) {
			return ErrInboxFull
		}
		awaitRoom(to, err, deadline.Sub(now))
	}
}

// awaitRoom waits after a send that failed with err: for at most left, and at most
// postInterval.
func awaitRoom(fd int, err error, left time.Duration) {
	if err != unix.EAGAIN {
		// A limit other than the socket's: nothing reports when there is room.
		time.Sleep(min(left, postPause))
		return
	}
	interval := max(min(left, postInterval), postPause)
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(interval.Milliseconds()))
}

// receive is Worker.Receive.
func (b *inboxes) receive(take func(fd int, payload []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != receivingNot {
		return
	}
	b.state, b.take = receivingNow, take
	for slot, fd := range b.waiting {
		b.readLocked(slot, fd)
	}
	clear(b.waiting)
}

// readLocked starts to read an inbox. The caller holds mu.
func (b *inboxes) readLocked(slot, fd int) {
	r := newReader(b, slot, fd)
	b.readers[slot] = r
	b.reading.Add(1)
	go r.run()
}

// stop is Worker.StopReceiving.
func (b *inboxes) stop(empty bool) {
	b.mu.Lock()
	b.state = receivingOver
	for slot, fd := range b.waiting {
		unix.Close(fd)
		delete(b.waiting, slot)
	}
	var all []*reader
	for _, r := range b.readers {
		all = append(all, r)
		if r.slot == b.own && !empty {
			b.keepLocked(r)
		}
	}
	b.mu.Unlock()
	for _, r := range all {
		r.stop(empty)
	}
	b.reading.Wait()
}

// keepLocked duplicates the receiving end of r's inbox for takeBack. The caller holds mu.
func (b *inboxes) keepLocked(r *reader) {
	r.link.raw.Control(func(fd uintptr) {
		if other, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			b.waiting[r.slot] = other
		}
	})
}

// takeBack is Worker.TakeBack.
func (b *inboxes) takeBack() {
	b.mu.Lock()
	fd, isKept := b.waiting[b.own]
	isKept = isKept && b.state == receivingOver
	if isKept {
		delete(b.waiting, b.own)
	}
	b.mu.Unlock()
	if !isKept {
		return
	}
	r := newReader(b, b.own, fd)
	r.stop(true)
	b.reading.Add(1)
	r.run()
}

// message carries out a message of the master that is about inboxes.
func (b *inboxes) message(m message, descriptors []int) (isInboxMessage bool) {
	slot := int(m.slot)
	switch m.kind {
	case messageInboxOff:
		b.release(slot)
		return true
	case messagePeer, messageInbox:
	default:
		return false
	}
	if len(descriptors) != 1 || !isInbox(descriptors[0]) {
		b.logger.Printf("worker %d: message %d came with %d descriptors and no inbox", b.own, m.kind, len(descriptors))
		closeAll(descriptors)
		return true
	}
	if m.kind == messagePeer {
		b.addPeer(slot, descriptors[0])
	} else {
		b.adopt(slot, descriptors[0])
	}
	return true
}

// adopt also reads the inbox of another slot.
func (b *inboxes) adopt(slot, fd int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, isRead := b.readers[slot]
	_, isWaiting := b.waiting[slot]
	switch {
	case b.state == receivingOver || isRead || isWaiting:
		unix.Close(fd)
	case b.state == receivingNow:
		b.readLocked(slot, fd)
	default:
		b.waiting[slot] = fd
	}
}

// release stops reading the inbox of another slot, which has a worker again.
func (b *inboxes) release(slot int) {
	if slot == b.own {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.readers[slot]; r != nil {
		r.stop(false)
		delete(b.readers, slot) // it may be adopted again before r has ended
	}
	if fd, found := b.waiting[slot]; found {
		unix.Close(fd)
		delete(b.waiting, slot)
	}
}

// forget drops a reader that has ended.
func (b *inboxes) forget(r *reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers[r.slot] == r {
		delete(b.readers, r.slot)
	}
}

// reader reads one inbox.
type reader struct {
	inboxes *inboxes
	slot    int
	link    *link
	empties atomic.Bool // read until the inbox is empty, then end
}

// newReader takes ownership of fd.
func newReader(b *inboxes, slot, fd int) *reader {
	return &reader{inboxes: b, slot: slot, link: newLink(inherited(fd, "inbox"))}
}

// stop makes run end, at once or when the inbox is empty.
func (r *reader) stop(empty bool) {
	if empty {
		r.empties.Store(true)
	}
	r.link.hangUp()
}

// run delivers parcels until stop is called.
func (r *reader) run() {
	defer r.inboxes.reading.Done()
	defer r.inboxes.forget(r)
	defer r.link.close()
	var p packet
	for {
		err := r.link.raw.Read(func(fd uintptr) bool {
			p = r.link.take(fd)
			return p.err != unix.EAGAIN
		})
		if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && r.empties.Load()) {
			return
		}
		if err != nil {
			break
		}
		if !r.deliver(p) {
			return
		}
	}
	for {
		if err := r.link.raw.Control(func(fd uintptr) { p = r.link.take(fd) }); err != nil || !r.deliver(p) {
			return
		}
	}
}

// deliver passes a parcel to take. It returns false if there are no more.
func (r *reader) deliver(p packet) bool {
	if p.err == unix.EINTR {
		return true
	}
	if p.err != nil || p.size == 0 && len(p.descriptors) == 0 && r.isOver() {
		return false
	}
	defer clear(r.link.buffer[:p.size]) // the payload may be secret
	m, err := parseMessage(r.link.buffer[:p.size])
	if err == nil && m.kind == messageParcel && p.lacksDescriptors && len(p.descriptors) == 0 {
		p.isCut, p.descriptors = false, []int{-1}
	}
	if err != nil || p.isCut || m.kind != messageParcel || len(p.descriptors) != 1 {
		closeAll(p.descriptors)
		r.inboxes.logger.Printf("worker %d: inbox of slot %d: a parcel of %d bytes and %d descriptors is dropped (cut: %v): %v",
			r.inboxes.own, r.slot, p.size, len(p.descriptors), p.isCut, err)
		return true
	}
	r.inboxes.taking.Lock()
	defer r.inboxes.taking.Unlock()
	r.inboxes.take(p.descriptors[0], m.payload)
	return true
}

// isOver reports whether no process holds the sending end any more. Otherwise an empty
// packet has arrived.
func (r *reader) isOver() bool {
	n := 0
	r.link.raw.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	})
	return n > 0
}
