package http2

import (
	"encoding/binary"
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
)

const (
	cellSize     = 64
	cellHead     = 4 // the next cell of the record, or of the free ones
	cellsInChunk = 256
)

// A Record names what Records have of a sleeping connection.
type Record uint32

// Records hold what sleeping connections know, each in a chain of cells. Cells contain no
// pointers, so that the garbage collector need not scan a million of them. A chunk of
// cells is dropped when no record uses it. The zero value is empty. Any number of
// goroutines may use it.
type Records struct {
	mu      sync.Mutex
	chunks  []cellChunk
	partial []uint32 // the chunks with free cells
	vacant  []uint32 // the indices in chunks that have none
}

type cell [cellSize]byte

// A cellChunk has cellsInChunk cells. A reference to a cell is its number plus one, so
// that 0 is none.
type cellChunk struct {
	cells *[cellsInChunk]cell
	free  uint32 // the first of the free cells that were used before
	fresh uint32 // so many were used
	used  uint32
	place uint32 // in partial, unless it is full
}

// put stores a copy of p.
func (r *Records) put(p []byte) Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.alloc()
	at := r.cell(first)
	binary.LittleEndian.PutUint32(at[cellHead:], uint32(len(p)))
	p = p[copy(at[2*cellHead:], p):]
	for len(p) > 0 {
		next := r.alloc()
		binary.LittleEndian.PutUint32(at[:], next)
		at = r.cell(next)
		p = p[copy(at[cellHead:], p):]
	}
	binary.LittleEndian.PutUint32(at[:], 0)
	return Record(first)
}

// take appends a record to dst, and frees it.
func (r *Records) take(record Record, dst []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := uint32(record)
	at := r.cell(ref)
	left := int(binary.LittleEndian.Uint32(at[cellHead:]))
	for skip := 2 * cellHead; ; skip = cellHead {
		n := min(left, cellSize-skip)
		dst = append(dst, at[skip:skip+n]...)
		next := binary.LittleEndian.Uint32(at[:])
		r.release(ref)
		if left -= n; left == 0 {
			return dst
		}
		ref = next
		at = r.cell(ref)
	}
}

func (r *Records) cell(ref uint32) *cell {
	return &r.chunks[(ref-1)/cellsInChunk].cells[(ref-1)%cellsInChunk]
}

// alloc returns a free cell.
func (r *Records) alloc() (ref uint32) {
	if len(r.partial) == 0 {
		r.addChunk()
	}
	index := r.partial[len(r.partial)-1]
	c := &r.chunks[index]
	if ref = c.free; ref != 0 {
		c.free = binary.LittleEndian.Uint32(r.cell(ref)[:])
	} else {
		c.fresh++
		ref = index*cellsInChunk + c.fresh
	}
	if c.used++; c.used == cellsInChunk {
		r.partial = r.partial[:len(r.partial)-1]
	}
	return ref
}

// release frees a cell.
func (r *Records) release(ref uint32) {
	index := (ref - 1) / cellsInChunk
	c := &r.chunks[index]
	binary.LittleEndian.PutUint32(r.cell(ref)[:], c.free)
	c.free = ref
	if c.used == cellsInChunk {
		r.addPartial(index)
	}
	if c.used--; c.used == 0 && len(r.partial) > 1 {
		r.dropChunk(index)
	}
}

func (r *Records) addPartial(index uint32) {
	r.chunks[index].place = uint32(len(r.partial))
	r.partial = append(r.partial, index)
}

func (r *Records) addChunk() {
	index := uint32(len(r.chunks))
	if n := len(r.vacant); n > 0 {
		index = r.vacant[n-1]
		r.vacant = r.vacant[:n-1]
	} else {
		r.chunks = append(r.chunks, cellChunk{})
	}
	r.chunks[index] = cellChunk{cells: new([cellsInChunk]cell)}
	r.addPartial(index)
}

// dropChunk gives back the memory of a chunk whose cells are all free.
func (r *Records) dropChunk(index uint32) {
	place, last := r.chunks[index].place, len(r.partial)-1
	r.partial[place] = r.partial[last]
	r.chunks[r.partial[place]].place = place
	r.partial = r.partial[:last]
	r.chunks[index] = cellChunk{}
	r.vacant = append(r.vacant, index)
	buf.LetGo(cellsInChunk * cellSize)
}
