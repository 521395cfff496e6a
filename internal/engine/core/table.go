//go:build linux && (amd64 || arm64)

package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	chunkShift = 10
	chunkSize  = 1 << chunkShift
	// chunkPatience is how long a chunk without connections is kept.
	chunkPatience = time.Minute
)

// A chunk holds the slots of chunkSize consecutive descriptors. The conns are apart
// from the slots, because they are pointers. An entry is set when goroutines other
// than the conn's worker must find it: while the connection waits and needs its
// conn, and while a goroutine waits in a Run.
type chunk struct {
	slots [chunkSize]slot
	conns [chunkSize]atomic.Pointer[conn]
	// tlsConns holds the TLS connections, from the first one on. The owner of a
	// connection owns its entry.
	tlsConns atomic.Pointer[[chunkSize]*tlsConn]
	// cold holds the TLS connections that have no tlsConn, in the same way.
	cold coldConns
	// proxied has what proxies have said of connections, from the first one on. The owner of a
	// connection writes its entry; those that hold its slot read it.
	proxied atomic.Pointer[[chunkSize]atomic.Pointer[engine.Proxied]]

	_ cacheLine
	// open is the number of connections, or negative: the chunk is dropped.
	open       atomic.Int32
	generation atomic.Uint32 // of the last connection
	// isAging is set while a call of free is scheduled.
	isAging atomic.Bool
	_       cacheLine
}

// table finds a slot by its descriptor. It makes chunks when they are needed, and
// drops them if they are empty at the end of chunkPatience.
type table struct {
	chunks atomic.Pointer[[]*chunk] // replaced, never changed

	mu sync.Mutex
	// last has the generations of the last connections of dropped chunks, by index.
	last map[int]uint32
}

// dropped is chunk.open of a dropped chunk. Calls of enter may add to it.
const dropped = -1 << 30

// enter counts a connection in. It returns false if c is dropped.
func (c *chunk) enter() bool { return c.open.Add(1) > 0 }

// newGeneration returns a number that is not 0, and that no connection with one of c's
// descriptors has had.
func (c *chunk) newGeneration() uint32 {
	for {
		if gen := c.generation.Add(1); gen != 0 {
			return gen
		}
	}
}

// place is where a connection's slot is.
type place struct {
	chunk *chunk
	at    *slot // in chunk, at index: finding it costs more, and it is needed often
	index int
}

// place returns the place of a descriptor in c.
func (c *chunk) place(fd int) place {
	index := fd & (chunkSize - 1)
	return place{c, &c.slots[index], index}
}

func (p place) slot() *slot { return p.at }

func (p place) conn() *atomic.Pointer[conn] { return &p.chunk.conns[p.index] }

// tlsConn returns the connection's TLS state; nil if it has none.
func (p place) tlsConn() *tlsConn {
	if all := p.chunk.tlsConns.Load(); all != nil {
		return all[p.index]
	}
	return nil
}

func (p place) setTLSConn(s *tlsConn) {
	if s == nil && p.chunk.tlsConns.Load() == nil {
		return
	}
	loadOrMake(&p.chunk.tlsConns)[p.index] = s
}

// proxied returns what a proxy has said of the connection, nil if that is nothing.
func (p place) proxied() *engine.Proxied {
	if all := p.chunk.proxied.Load(); all != nil {
		return all[p.index].Load()
	}
	return nil
}

func (p place) setProxied(said *engine.Proxied) {
	if said == nil && p.chunk.proxied.Load() == nil {
		return
	}
	loadOrMake(&p.chunk.proxied)[p.index].Store(said)
}

// loadOrMake returns what p points to, and makes it if there is nothing.
func loadOrMake[T any](p *atomic.Pointer[T]) *T {
	if there := p.Load(); there != nil {
		return there
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}

// find returns the place of a descriptor. Its chunk is nil if there is none.
func (t *table) find(fd int) place {
	if c := t.chunk(fd); c != nil {
		return c.place(fd)
	}
	return place{}
}

// slot returns the slot of a descriptor, nil if there is none.
func (t *table) slot(fd int) *slot {
	if c := t.chunk(fd); c != nil {
		return &c.slots[fd&(chunkSize-1)]
	}
	return nil
}

// chunk returns the chunk of a descriptor, nil if there is none.
func (t *table) chunk(fd int) *chunk {
	if all := t.chunks.Load(); all != nil {
		if at := fd >> chunkShift; at < len(*all) {
			return (*all)[at]
		}
	}
	return nil
}

// open returns the place for a new connection, and counts it in its chunk.
func (t *table) open(fd int) place {
	p := t.find(fd)
	if p.chunk == nil || !p.chunk.enter() {
		p = t.chunkFor(fd).place(fd)
	}
	return p
}

// chunkFor returns a chunk for fd, which it makes if there is none, and counts a
// connection in.
func (t *table) chunkFor(fd int) *chunk {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := fd >> chunkShift
	c := t.find(fd).chunk // not dropped, because mu is held
	if c == nil {
		c = &chunk{}
		c.generation.Store(t.last[at])
		delete(t.last, at)
		t.replaceLocked(at, c)
	}
	c.enter()
	return c
}

// replaceLocked sets the chunk at index at; mu is held.
func (t *table) replaceLocked(at int, c *chunk) {
	var all []*chunk
	if old := t.chunks.Load(); old != nil {
		all = append(all, *old...)
	}
	for len(all) <= at {
		all = append(all, nil)
	}
	all[at] = c
	t.chunks.Store(&all)
}

// close removes the connection at fd from its chunk's count.
func (t *table) close(fd int, p place) {
	if p.chunk.open.Add(-1) == 0 && p.chunk.isAging.CompareAndSwap(false, true) {
		time.AfterFunc(chunkPatience, func() { t.free(fd>>chunkShift, p.chunk) })
	}
}

// free drops c if it is empty.
func (t *table) free(at int, c *chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.isAging.Store(false)
	all := *t.chunks.Load()
	if all[at] == c && c.open.CompareAndSwap(0, dropped) {
		t.replaceLocked(at, nil)
		if t.last == nil {
			t.last = make(map[int]uint32)
		}
		t.last[at] = c.generation.Load()
	}
}

// each calls f for every slot in use, with its descriptor.
func (t *table) each(f func(fd int, p place)) {
	t.around(0, func(fd int, p place) bool {
		f(fd, p)
		return true
	})
}

// around calls f for every slot in use, from the descriptor start on and then for those
// below it, until f returns false. It returns the descriptor to go on with.
func (t *table) around(start int, f func(fd int, p place) bool) (next int) {
	all := t.chunks.Load()
	if all == nil {
		return 0
	}
	size := len(*all) << chunkShift
	for _, part := range [2][2]int{{start, size}, {0, min(start, size)}} {
		for fd := part[0]; fd < part[1]; {
			c := (*all)[fd>>chunkShift]
			end := min((fd>>chunkShift+1)<<chunkShift, part[1])
			if c == nil || c.open.Load() <= 0 {
				fd = end
			}
			for ; fd < end; fd++ {
				i := fd & (chunkSize - 1)
				if c.slots[i].word.Load()&stateMask != stateClosed && !f(fd, c.place(i)) {
					return fd + 1
				}
			}
		}
	}
	return start
}
