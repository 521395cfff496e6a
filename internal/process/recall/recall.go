// Package recall gets for the hub of one process what hubs of other processes have in their
// histories: when the process begins, and after messages were lost on the way.
//
// Every message is that of one process, which numbers its messages from 1. A hub that
// recalls asks all others, and then each of them for the messages that it does not have.
// Meanwhile, it holds what the others publish. The cut is exact: what another hub has
// published when it answers, it gives; what it publishes later comes by itself, and is held
// until the answer has come. docs/adr/0030-the-history-of-a-fleet.md says why.
package recall

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/backplane"
)

const (
	// pageSize is how many bytes of messages are sent at once, if there is not one that is
	// larger. A page waits in the queue of a peer, together with what is published.
	pageSize = 128 << 10
	// askInterval is the time between two questions while nobody answers.
	askInterval = 50 * time.Millisecond
	// settleTime is the wait for more answers after the first one, if nobody knows how many
	// will come.
	settleTime = 100 * time.Millisecond
	// meetPatience bounds the wait for answers of others, pagePatience that for one page.
	meetPatience = time.Second
	pagePatience = time.Second
	// pageTries is how often a page is asked for.
	pageTries = 2
	// patience bounds the whole.
	patience = 5 * time.Second
	// maxPeers is how many other hubs are asked.
	maxPeers = 64
)

// A Cursor says how far the messages of one process have come: up to Number. Those up to
// Evicted are not in the history any more, or never were.
type Cursor struct {
	Run             uint32
	Number, Evicted uint64
}

// A Log is the history of a hub. Its methods may be called by any goroutine.
type Log interface {
	// Cursors returns those of all processes, that of this one first.
	Cursors() []Cursor
	// Len returns how many messages there are.
	Len() int
	// Page returns messages that have does not cover, in the order of the history: of each
	// process the next ones. Their encodings have size bytes together, or there is one. isLast
	// reports whether these are all.
	Page(have []Cursor, size int) (messages [][]byte, isLast bool)
	// Take carries out a message of another process, and ignores one that it has had.
	Take(message []byte)
	// Reach says that messages up to these cursors do not come any more.
	Reach(cursors []Cursor)
}

// Options configure a Recall.
type Options struct {
	Log   Log
	Plane backplane.Backplane
	Room  string // the one to which the hubs publish
	Run   uint32 // of this process
	// Most is how many bytes of messages are held. More are dropped, and the others follow.
	Most int
}

type phase uint8

const (
	phaseUnconnected phase = iota // the Backplane does not connect yet: messages are held
	phaseAsking                   // messages are held, and Await waits
	phaseIdle
)

// A Recall recalls for one hub. A nil one does nothing.
type Recall struct {
	Options
	room    string // that of the answers to this process
	answers chan letter

	mu      sync.Mutex // guards the rest
	phase   phase
	isDue   bool // another round follows
	held    [][]byte
	bytes   int           // of held
	over    chan struct{} // closed at the end of phaseAsking
	full    chan struct{} // closed when too much is held
	nonce   uint32        // of the last question
	awaited kind          // its answers; 0: none
	of      uint32        // the process that it was for; 0: all
}

// New returns the Recall of a hub, which has not subscribed yet.
func New(o Options) *Recall {
	return &Recall{Options: o, room: roomOf(o.Room, o.Run), answers: make(chan letter, maxPeers)}
}

// Begin joins the room of the hub and that of the answers, and recalls when the Backplane
// connects this process, which does not serve before it is over. The hub has subscribed.
func (r *Recall) Begin() error {
	for _, room := range []string{r.Room, r.room} {
		if err := r.Plane.Join(room); err != nil {
			return err
		}
	}
	if c, ok := r.Plane.(backplane.Connector); ok {
		c.OnConnect(func() {
			r.Again()
			r.Await(context.Background())
		})
		return nil
	}
	r.Again()
	return nil
}

// Again recalls once more, because messages may have been lost. What comes from now on is
// held.
func (r *Recall) Again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.againLocked()
}

func (r *Recall) againLocked() {
	r.isDue = true
	if r.phase != phaseAsking {
		r.phase, r.over, r.full = phaseAsking, make(chan struct{}), make(chan struct{})
		go r.run()
	}
}

// Await returns when nothing is being recalled, or when ctx ends.
func (r *Recall) Await(ctx context.Context) {
	if r == nil {
		return
	}
	r.mu.Lock()
	over, isOver := r.over, r.phase != phaseAsking
	r.mu.Unlock()
	if isOver {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// Gap tells of lost messages of a room. It reports whether the hub is concerned.
func (r *Recall) Gap(room string) bool {
	if room == r.room { // the page is asked for again
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != phaseUnconnected {
		r.againLocked()
	}
	return true
}

// Received is called for everything that the hub receives, before anything else. It tells
// whether the hub has nothing to do with it now. follows reports whether nothing is missing
// before a message.
func (r *Recall) Received(data []byte, follows func() bool) (isDone bool) {
	if l, ok := parseLetter(data); ok {
		r.handle(l)
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == phaseIdle && !follows() {
		r.againLocked()
	}
	if r.phase == phaseIdle {
		return false
	}
	if r.bytes += len(data); r.bytes <= r.Most {
		r.held = append(r.held, slices.Clone(data))
	} else if r.full != nil {
		select {
		case <-r.full:
		default:
			close(r.full)
		}
	}
	return true
}

// handle answers a question, or passes an answer on.
func (r *Recall) handle(l letter) {
	switch {
	case l.from == r.Run || l.to != r.Run && l.to != 0:
	case l.kind == kindAsk:
		r.answer(letter{kind: kindHere, to: l.from, nonce: l.nonce, count: uint64(r.Log.Len())})
	case l.kind == kindWant:
		a := letter{kind: kindPage, to: l.from, nonce: l.nonce, cursors: r.Log.Cursors()}
		a.messages, a.isLast = r.Log.Page(l.cursors, pageSize)
		r.answer(a)
	default:
		r.accept(l)
	}
}

// accept passes an answer to the last question on.
func (r *Recall) accept(l letter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.nonce != r.nonce || l.kind != r.awaited || r.of != 0 && r.of != l.from {
		return
	}
	if l.kind == kindPage {
		r.awaited = 0
	}
	select {
	case r.answers <- l.clone():
	default: // the rest of them is not asked
	}
}

// answer sends l to the process that it is for. If it is lost, that one asks again.
func (r *Recall) answer(l letter) {
	l.from = r.Run
	_ = r.Plane.Publish(roomOf(r.Room, l.to), appendLetter(nil, l))
}

// ask sends a question, the answers to which have a kind. Those to earlier ones are ignored.
func (r *Recall) ask(l letter, answers kind) {
	r.mu.Lock()
	r.nonce++
	r.awaited, r.of = answers, l.to
	l.from, l.nonce = r.Run, r.nonce
	for len(r.answers) > 0 {
		<-r.answers
	}
	r.mu.Unlock()
	_ = r.Plane.Publish(r.Room, appendLetter(nil, l))
}

// roomOf is where the process of a run gets answers.
func roomOf(room string, run uint32) string {
	return room + "\x00" + strconv.FormatUint(uint64(run), 36)
}

// run recalls until nothing is due any more. Then it carries out what was held.
func (r *Recall) run() {
	for {
		full := r.round()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		go func() {
			select {
			case <-full:
				cancel()
			case <-ctx.Done():
			}
		}()
		var reached []Cursor
		others := r.others()
		for _, peer := range r.meet(ctx, others) {
			reached = append(reached, r.pull(ctx, peer, others)...)
		}
		cancel()
		r.Log.Reach(reached)
		if r.release() {
			return
		}
	}
}

// round begins a round, and returns the channel that cuts it.
func (r *Recall) round() (full <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isDue = false
	return r.full
}

// release carries out what is held, and ends the recall. It returns false if another round is
// due before: what is held then stays, except if it is too much, because nothing more could be
// held in that round.
func (r *Recall) release() (isOver bool) {
	for {
		r.mu.Lock()
		var held [][]byte
		if !r.isDue || r.bytes > r.Most {
			held, r.held, r.bytes = r.held, nil, 0
		}
		if len(held) == 0 {
			if isOver = !r.isDue; isOver {
				r.phase = phaseIdle
				close(r.over)
			} else {
				r.full = make(chan struct{})
			}
			r.mu.Unlock()
			return isOver
		}
		r.mu.Unlock()
		for _, message := range held {
			r.Log.Take(message)
		}
	}
}

// others returns how many other hubs there are; -1: unknown.
func (r *Recall) others() int {
	if c, ok := r.Plane.(backplane.Connector); ok {
		return c.Others(r.Room)
	}
	return -1
}

// meet returns the other hubs that answer, of which so many are expected, those with the
// longest history first.
func (r *Recall) meet(ctx context.Context, expected int) (peers []uint32) {
	ctx, cancel := context.WithTimeout(ctx, meetPatience)
	defer cancel()
	var here []letter
	for len(here) == 0 && ctx.Err() == nil && r.others() != 0 {
		r.ask(letter{kind: kindAsk}, kindHere)
		for wait := askInterval; ; wait = settleTime {
			l, ok := r.next(ctx, wait)
			if !ok && (len(here) == 0 || len(here) >= r.others()) || len(here) == maxPeers || ctx.Err() != nil {
				break // some of the expected may have left
			}
			if ok && !slices.ContainsFunc(here, func(o letter) bool { return o.from == l.from }) {
				here = append(here, l)
			}
			if len(here) == expected {
				break
			}
		}
	}
	slices.SortStableFunc(here, func(a, b letter) int { return cmp.Compare(b.count, a.count) })
	for _, l := range here {
		peers = append(peers, l.from)
	}
	return peers
}

// pull gets from a hub, one of so many, what this one does not have. It returns what that one
// has reached.
func (r *Recall) pull(ctx context.Context, peer uint32, others int) (reached []Cursor) {
	have := r.Log.Cursors()
	for tries := pageTries; tries > 0 && ctx.Err() == nil; {
		r.ask(letter{kind: kindWant, to: peer, cursors: have}, kindPage)
		page, ok := r.page(ctx, others)
		if !ok {
			if tries--; tries == 0 && r.others() < others {
				r.Again() // this one may be slow, and another one have left
			}
			continue
		}
		for _, message := range page.messages {
			r.Log.Take(message)
		}
		if page.isLast {
			return page.cursors
		}
		before := have
		if have = r.Log.Cursors(); slices.Equal(have, before) {
			return nil
		}
		tries = pageTries
	}
	return nil
}

// page returns a page. It waits for less long once one of the others has left: that may be
// the one that was asked.
func (r *Recall) page(ctx context.Context, others int) (l letter, ok bool) {
	for left := pagePatience; left > 0 && !ok && ctx.Err() == nil; left -= settleTime {
		if l, ok = r.next(ctx, settleTime); r.others() < others {
			break
		}
	}
	return l, ok
}

// next returns the next answer to the last question.
func (r *Recall) next(ctx context.Context, wait time.Duration) (l letter, ok bool) {
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case l = <-r.answers:
		return l, true
	case <-late.C:
	case <-ctx.Done():
	}
	return letter{}, false
}
