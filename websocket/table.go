package websocket

import (
	"sync"
	"sync/atomic"
)

// connsInChunk is how many Conns are allocated together. A chunk is freed when all of them
// have ended, and nobody has kept one; so a connection holds at most this many Conns.
const connsInChunk = 8

// A chunk of Conns. No Conn is used for a second connection, so that a program may keep it.
type chunk [connsInChunk]Conn

// A table finds the Conns of open connections by a number, which a Memo can hold. The zero
// value is empty.
type table struct {
	chunks atomic.Pointer[[]atomic.Pointer[chunk]] // read without mu

	mu     sync.Mutex
	open   []uint8  // for each chunk: Conns that have not ended
	vacant []uint32 // places in chunks without one
	place  uint32   // of the chunk that is being used up
	unused uint32   // its Conns that are not used yet
}

// add returns a new Conn, with its index.
func (t *table) add() *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unused == 0 {
		t.place = t.newPlace()
		(*t.chunks.Load())[t.place].Store(new(chunk))
		t.unused = connsInChunk
	}
	at := connsInChunk - t.unused
	t.unused--
	t.open[t.place]++
	c := &(*t.chunks.Load())[t.place].Load()[at]
	c.index = t.place*connsInChunk + at
	return c
}

// newPlace returns a place for a chunk; mu is held.
func (t *table) newPlace() uint32 {
	if n := len(t.vacant); n > 0 {
		place := t.vacant[n-1]
		t.vacant = t.vacant[:n-1]
		return place
	}
	place := len(t.open)
	t.open = append(t.open, 0)
	old := t.chunks.Load()
	if old == nil || len(*old) == place {
		grown := make([]atomic.Pointer[chunk], max(2*place, 64))
		for i := range place {
			grown[i].Store((*old)[i].Load())
		}
		t.chunks.Store(&grown)
	}
	return uint32(place)
}

// get returns the Conn with an index, which has not ended.
func (t *table) get(index uint32) *Conn {
	return &(*t.chunks.Load())[index/connsInChunk].Load()[index%connsInChunk]
}

// remove forgets the Conn with an index, which has ended.
func (t *table) remove(index uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := index / connsInChunk
	t.open[place]--
	if t.open[place] > 0 || place == t.place && t.unused > 0 {
		return
	}
	(*t.chunks.Load())[place].Store(nil)
	t.vacant = append(t.vacant, place)
}
