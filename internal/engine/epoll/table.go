//go:build linux && (amd64 || arm64)

package epoll

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

// A chunk is the slots of so many descriptors in a row. The conns are apart from
// the slots, because they are pointers. A conn is there when others than its
// worker must find it: while its connection waits and cannot do without it, and
// while a goroutine waits in a Run.
type chunk struct {
	slots [chunkSize]slot
	conns [chunkSize]atomic.Pointer[conn]
	open  atomic.Int32
	// tlsConns are the TLS connections among them, made with the first one. An
	// entry is its connection's owner's.
	tlsConns atomic.Pointer[[chunkSize]*tlsConn]
	// isAging: free looks at it in a while.
	isAging atomic.Bool
}

// table finds a slot by its descriptor. Chunks come when they are needed and go
// when they have been empty for a while.
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

// tlsConn returns the TLS of the connection, nil if it has none.
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

// find returns the place of a descriptor; its chunk is nil if there never was a
// connection near it, or none is left.
func (t *table) find(fd int) place {
	if all := t.chunks.Load(); all != nil {
		if at := fd >> chunkShift; at < len(*all) {
			return place{(*all)[at], fd & (chunkSize - 1)}
		}
	}
	return place{}
}

// open returns the place for a new connection, which counts from now on.
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

// replace puts c at a place among the chunks; mu is held.
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

// close counts the connection at fd out.
func (t *table) close(fd int, p place) {
	if p.chunk.open.Add(-1) == 0 && p.chunk.isAging.CompareAndSwap(false, true) {
		time.AfterFunc(chunkPatience, func() { t.free(fd>>chunkShift, p.chunk) })
	}
}

// free forgets c if it is still empty.
func (t *table) free(at int, c *chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.isAging.Store(false)
	all := *t.chunks.Load()
	if all[at] == c && c.open.Load() == 0 {
		t.replace(at, nil)
	}
}

// each calls f for every slot in use and the descriptor that it stands for.
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
