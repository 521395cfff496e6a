//go:build linux && (amd64 || arm64)

package core

import (
	"sync"
	"sync/atomic"
	"time"
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
	open  atomic.Int32
	// tlsConns holds the TLS connections, from the first one on. The owner of a
	// connection owns its entry.
	tlsConns atomic.Pointer[[chunkSize]*tlsConn]
	// isAging is set while a call of free is scheduled.
	isAging atomic.Bool
}

// table finds a slot by its descriptor. It makes chunks when they are needed, and
// drops them if they are empty at the end of chunkPatience.
type table struct {
	mu     sync.Mutex
	chunks atomic.Pointer[[]*chunk] // replaced, never changed
}

// place is where a connection's slot is.
type place struct {
	chunk *chunk
	index int
}

func (p place) slot() *slot { return &p.chunk.slots[p.index] }

func (p place) conn() *atomic.Pointer[conn] { return &p.chunk.conns[p.index] }

// tlsConn returns the connection's TLS state; nil if it has none.
func (p place) tlsConn() *tlsConn {
	if all := p.chunk.tlsConns.Load(); all != nil {
		return all[p.index]
	}
	return nil
}

func (p place) setTLSConn(s *tlsConn) {
	all := p.chunk.tlsConns.Load()
	if all == nil {
		if s == nil {
			return
		}
		all = &[chunkSize]*tlsConn{}
		if !p.chunk.tlsConns.CompareAndSwap(nil, all) {
			all = p.chunk.tlsConns.Load()
		}
	}
	all[p.index] = s
}

// find returns the place of a descriptor. Its chunk is nil if there is none.
func (t *table) find(fd int) place {
	if all := t.chunks.Load(); all != nil {
		if at := fd >> chunkShift; at < len(*all) {
			return place{(*all)[at], fd & (chunkSize - 1)}
		}
	}
	return place{}
}

// open returns the place for a new connection, and counts it in its chunk.
func (t *table) open(fd int) place {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.find(fd)
	if p.chunk == nil {
		p = place{&chunk{}, fd & (chunkSize - 1)}
		t.replace(fd>>chunkShift, p.chunk)
	}
	p.chunk.open.Add(1)
	return p
}

// replace sets the chunk at index at; mu is held.
func (t *table) replace(at int, c *chunk) {
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
	if all[at] == c && c.open.Load() == 0 {
		t.replace(at, nil)
	}
}

// each calls f for every slot in use, with its descriptor.
func (t *table) each(f func(fd int, p place)) {
	all := t.chunks.Load()
	if all == nil {
		return
	}
	for at, c := range *all {
		if c == nil || c.open.Load() == 0 {
			continue
		}
		for i := range c.slots {
			if c.slots[i].word.Load()&stateMask != stateClosed {
				f(at<<chunkShift|i, place{c, i})
			}
		}
	}
}
