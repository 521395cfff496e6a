package h2

import (
	"math/bits"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// starvationTurn: every so many frames, one goes to the lowest urgency that waits.
const starvationTurn = 16

// A Node is the place of a stream in a Scheduler. Embed it in the stream, and set Owner
// and ID before Push. A Node is in at most one Scheduler.
type Node[S any] struct {
	// Owner is the stream that has the Node.
	Owner *S
	// ID is the number of the stream.
	ID uint32
	// priority is set by Scheduler.Place only: it names the list that has the Node.
	priority   fieldlist.Priority
	next, prev *Node[S] // a ring; nil when the Node is in no list
}

// Priority returns the priority of the stream; that of the zero value is not
// DefaultPriority.
func (n *Node[S]) Priority() fieldlist.Priority { return n.priority }

// IsQueued reports whether the stream waits to send.
func (n *Node[S]) IsQueued() bool { return n.next != nil }

// A Scheduler says which of the streams that have data and window sends the next frame
// (RFC 9218 section 10). The most urgent come first. Of the streams of one urgency,
// those that are not incremental send one after the other, in the order of their
// numbers; incremental ones send in turn. If both wait, every second frame is for an
// incremental one. Every 16th frame goes to the lowest urgency that waits.
//
// The zero value is empty. Next costs the same however many streams wait, and nothing
// allocates.
type Scheduler[S any] struct {
	rings [fieldlist.LowestUrgency + 1]rings[S]
	mask  uint8 // bit u: streams of urgency u wait
	mixed uint8 // bit u: of urgency u, an incremental stream has the next turn
	turn  uint8 // frames since the last for the lowest urgency
}

// rings are the first nodes of the streams of one urgency.
type rings[S any] struct{ ordered, incremental *Node[S] }

func (q *Scheduler[S]) ring(p fieldlist.Priority) **Node[S] {
	r := &q.rings[p.Urgency&fieldlist.LowestUrgency]
	if p.IsIncremental {
		return &r.incremental
	}
	return &r.ordered
}

// IsEmpty reports whether no stream waits.
func (q *Scheduler[S]) IsEmpty() bool { return q.mask == 0 }

// Push makes n wait for its turn. If it waits already, nothing happens. Streams that
// are pushed in the order of their numbers, or before all others, cost the same however
// many wait.
func (q *Scheduler[S]) Push(n *Node[S]) {
	if n.IsQueued() {
		return
	}
	q.mask |= 1 << (n.priority.Urgency & fieldlist.LowestUrgency)
	first := q.ring(n.priority)
	at := *first // n goes before at
	if at == nil {
		n.next, n.prev = n, n
		*first = n
		return
	}
	if !n.priority.IsIncremental {
		if n.ID < at.ID {
			*first = n
		} else {
			for at.prev.ID > n.ID {
				at = at.prev
			}
		}
	}
	n.next, n.prev = at, at.prev
	at.prev.next, at.prev = n, n
}

// Remove ends the waiting of n: it has no data, or no window, or has ended. If it does
// not wait, nothing happens.
func (q *Scheduler[S]) Remove(n *Node[S]) {
	if !n.IsQueued() {
		return
	}
	first := q.ring(n.priority)
	if *first == n {
		*first = n.next
	}
	if n.next == n {
		*first = nil
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.next, n.prev = nil, nil
	urgency := n.priority.Urgency & fieldlist.LowestUrgency
	if q.rings[urgency] == (rings[S]{}) {
		q.mask &^= 1 << urgency
	}
}

// Place sets the priority of n, which may wait or not.
func (q *Scheduler[S]) Place(n *Node[S], p fieldlist.Priority) {
	p.Urgency &= fieldlist.LowestUrgency
	if n.priority == p {
		return
	}
	isQueued := n.IsQueued()
	q.Remove(n)
	n.priority = p
	if isQueued {
		q.Push(n)
	}
}

// Next returns the stream that sends the next frame, nil if none waits. It remains
// queued: call Remove when it has sent all that it can.
func (q *Scheduler[S]) Next() *Node[S] {
	if q.mask == 0 {
		return nil
	}
	urgency := bits.TrailingZeros8(q.mask)
	if q.turn++; q.turn == starvationTurn {
		q.turn = 0
		urgency = bits.Len8(q.mask) - 1
	}
	r := &q.rings[urgency]
	if n := r.ordered; n != nil && (r.incremental == nil || q.mixed>>urgency&1 == 0) {
		q.mixed |= 1 << urgency
		return n
	}
	q.mixed &^= 1 << urgency
	n := r.incremental
	r.incremental = n.next
	return n
}
