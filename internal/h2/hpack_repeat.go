package h2

import "github.com/sluicehttp/sluice/internal/field"

// Clients often send one request again and again on a connection: they poll, or call one
// method. As soon as the dynamic table has its fields, the blocks of such requests have the
// same bytes. A Decoder keeps the last request block that came twice in a row, and what it
// means while the table does not change. Of other blocks it only keeps a mark.

// maxRepeated is the length of the longest block that a Decoder keeps.
const maxRepeated = 512

// A repeated is a request block that was valid and has not changed the dynamic table.
type repeated struct {
	block   []byte
	changes uint32 // of the table
	fields  field.Table
	head    Head
}

// markOf returns a number that blocks which differ seldom share. 0: block is not kept.
func markOf(block []byte) uint32 {
	if len(block) > maxRepeated {
		return 0
	}
	return uint32(mix(uint64(len(block)), block, 0)) | 1
}

// repeats makes block, which is the whole of the one that Begin has started, the one that
// is kept, and tells whether it is.
func (d *Decoder) repeats(block []byte) bool {
	r := d.last
	if r == nil || string(block) != string(r.block) || r.changes != d.table.changes ||
		d.block != RequestBlock || d.table.max > d.low || r.fields.KeepNames != d.fields.KeepNames {
		return false
	}
	d.phase, d.low = atListField, d.limit
	r.fields.CopyTo(d.fields)
	*d.head = r.head
	return true
}

// keep keeps block, which was decoded without an error, if it is like the last one. before
// is table.changes before it.
func (d *Decoder) keep(block []byte, before uint32) {
	mark := markOf(block)
	isAgain := mark != 0 && mark == d.mark
	d.mark = mark
	if !isAgain || d.block != RequestBlock || before != d.table.changes || len(d.fields.Raw()) > maxKept {
		return
	}
	if d.last == nil {
		d.last = &repeated{}
	}
	r := d.last
	r.block, r.changes, r.head = append(r.block[:0], block...), before, *d.head
	d.fields.CopyTo(&r.fields)
}

// Forget gives up what is kept of blocks that repeat.
func (d *Decoder) Forget() { d.last, d.mark = nil, 0 }
