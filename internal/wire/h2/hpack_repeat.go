package h2

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Clients often send one request again and again on a connection: they poll, or call one
// method; or requests that differ only in their path. As soon as the dynamic table has the
// other fields, the blocks of such requests have the same bytes but for the path, which most
// clients do not put into the table. A Decoder keeps the last request block that was like the
// one before it, and what it means while the table does not change. Of other blocks it only
// keeps a mark.

// maxRepeated is the length of the longest block that a Decoder keeps.
const maxRepeated = 512

// A repeated is a request block that was valid and has not changed the dynamic table.
type repeated struct {
	block   []byte
	path    pathPlace
	changes uint32 // of the table
	size    int    // of the list
	fields  field.Table
	head    fieldlist.Head
}

// A pathPlace is where a block has the string that is the value of :path: how many bytes of
// the block there are from its beginning on, and after it. The zero value: :path is indexed.
type pathPlace struct{ from, after int }

// split returns what block, which has the path there, has before and after it.
func (p pathPlace) split(block []byte) (before, after []byte) {
	return block[:len(block)-p.from], block[len(block)-p.after:]
}

// markOf returns a number that blocks which differ seldom share, but for their paths. 0: block
// is not kept.
func markOf(block []byte, path pathPlace) uint32 {
	if len(block) > maxRepeated {
		return 0
	}
	before, after := path.split(block)
	return uint32(mix(mix(uint64(len(before)), before, 0), after, 0)) | 1
}

// repeats makes block, which is the whole of the one that Begin has started, the one that
// is kept, perhaps with another path, and reports whether it is.
func (d *Decoder) repeats(block []byte) bool {
	r := d.last
	if r == nil || r.changes != d.table.changes ||
		d.Kind != fieldlist.Request || d.table.max > d.low || r.fields.KeepNames != d.Table.KeepNames {
		return false
	}
	if string(block) == string(r.block) {
		r.fields.CopyTo(d.Table)
		*d.Head = r.head
	} else if r.path.from == 0 || !d.repeatsWith(r, block) {
		return false
	}
	d.phase, d.low = atListField, d.limit
	return true
}

// repeatsWith is repeats for a block with another path, which is literal. It leaves all that is
// unusual to Push.
func (d *Decoder) repeatsWith(r *repeated, block []byte) bool {
	before, after := r.path.split(r.block)
	at, end := len(before), len(block)-len(after)
	if at >= end || len(block) > maxRepeated || string(block[:at]) != string(before) || !bytes.HasSuffix(block, after) {
		return false
	}
	s, err := d.locate(block[:end], at)
	if err != nil || s.start+s.length != end || s.length > d.maxString() {
		return false
	}
	d.Out = d.scratch[:0]
	err = d.decode(block, s)
	path, was := d.Out, r.head.Target
	d.scratch, d.Out = d.Out, nil
	if err != nil || len(path) == 0 || path[0] != '/' || !h1.IsPath(path) {
		return false
	}
	delta := len(path) - (was.End - was.Start)
	if len(path) > d.Limits.MaxLine || r.size+delta > d.Limits.MaxHead {
		return false
	}
	r.fields.CopyWith(d.Table, was.Start, was.End, path)
	h := d.Head
	*h = r.head
	h.Target.End += delta
	for _, s := range [...]*h1.Span{&h.Method, &h.Authority, &h.Scheme, &h.Connect} {
		if s.Start >= was.End {
			s.Start, s.End = s.Start+delta, s.End+delta
		}
	}
	return true
}

// keep keeps block, which was decoded without an error, if it is like the last one. before
// is table.changes before it.
func (d *Decoder) keep(block []byte, before uint32) {
	mark := markOf(block, d.path)
	isAgain := mark != 0 && mark == d.mark
	d.mark = mark
	if !isAgain || d.Kind != fieldlist.Request || before != d.table.changes || len(d.Table.Raw()) > maxKept {
		return
	}
	if d.last == nil {
		d.last = &repeated{}
	}
	r := d.last
	r.block, r.path, r.changes, r.size, r.head = append(r.block[:0], block...), d.path, before, d.Size, *d.Head
	d.Table.CopyTo(&r.fields)
}

// Forget gives up what is kept of blocks that repeat.
func (d *Decoder) Forget() { d.last, d.mark = nil, 0 }
