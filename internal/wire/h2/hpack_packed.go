package h2

import (
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// Integers in packed state are uvarints in their shortest form, so that a state has
// one packed form.

// AppendPacked appends what d knows between two blocks: the limits and the table of
// the peer. Limits and AcceptsConnect are not part of it.
func (d *Decoder) AppendPacked(dst []byte) []byte {
	for _, n := range [...]int{d.limit, d.low, d.table.max} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return d.table.appendPacked(dst)
}

// Unpack puts d into the state that AppendPacked has written. If b is anything else,
// the error is ErrPackedDecoder, and d must be Reset.
func (d *Decoder) Unpack(b []byte) error {
	d.Reset()
	var ok bool
	for _, n := range [...]*int{&d.limit, &d.low, &d.table.max} {
		if *n, b, ok = cutInteger(b); !ok || *n > MaxTableSize {
			return ErrPackedDecoder
		}
	}
	if d.low > d.limit {
		return ErrPackedDecoder
	}
	return d.table.unpack(b)
}

// CutUvarint reads an integer of packed state. ok is false if b does not begin with one in
// its shortest form.
func CutUvarint(b []byte) (n uint64, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || used > 1 && b[used-1] == 0 {
		return 0, nil, false
	}
	return n, b[used:], true
}

// cutInteger reads an integer of at most fieldlist.MaxInteger.
func cutInteger(b []byte) (n int, rest []byte, ok bool) {
	v, rest, ok := CutUvarint(b)
	if !ok || v > fieldlist.MaxInteger {
		return 0, nil, false
	}
	return int(v), rest, true
}

// cutPacked reads a length and as many bytes.
func cutPacked(b []byte) (s, rest []byte, ok bool) {
	n, b, ok := cutInteger(b)
	if !ok || n > len(b) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// appendText appends a length and the bytes of s.
func appendText(dst, s []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendPacked appends what e knows between two blocks. Pairs are written out, because
// the list of another process is not the same. The last date is not part of it.
func (e *Encoder) AppendPacked(dst []byte) []byte {
	dst = e.appendLimits(dst)
	for i, id := range e.known[:e.count] {
		if id >= pairSlots {
			dst = binary.AppendUvarint(dst, uint64(e.sizeOf(i)))
			continue
		}
		p := e.pairs.slots[id].Load()
		dst = append(dst, 0)
		dst = appendText(dst, p.name)
		dst = appendText(dst, p.value)
	}
	return dst
}

func (e *Encoder) appendLimits(dst []byte) []byte {
	for _, n := range [...]int{e.limit, e.want, e.low, e.count} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

// Unpack puts e into the state that AppendPacked has written, and adds its pairs to
// pairs. If b is anything else, the error is ErrPackedEncoder, and e must be Reset.
func (e *Encoder) Unpack(b []byte, pairs *Pairs) error {
	return e.unpack(b, pairs, cutEntry)
}

// AppendIndices appends what e knows between two blocks, for the same list of pairs: one
// to two bytes a pair. The last date is not part of it.
func (e *Encoder) AppendIndices(dst []byte) []byte {
	dst = e.appendLimits(dst)
	for _, id := range e.known[:e.count] {
		dst = binary.AppendUvarint(dst, uint64(id))
	}
	return dst
}

// UnpackIndices is Unpack for AppendIndices.
func (e *Encoder) UnpackIndices(b []byte, pairs *Pairs) error {
	return e.unpack(b, pairs, cutIndex)
}

// unpack is Unpack with a function that reads an entry.
func (e *Encoder) unpack(b []byte, pairs *Pairs, cut func([]byte, *Pairs) (uint16, int, []byte, bool)) error {
	e.Reset(pairs)
	var ok bool
	for _, n := range [...]*int{&e.limit, &e.want, &e.low, &e.count} {
		if *n, b, ok = cutInteger(b); !ok || *n > DefaultTableSize {
			return ErrPackedEncoder
		}
	}
	count, total := e.count, 0
	if count > maxKnown || e.low > e.want {
		return ErrPackedEncoder
	}
	for i := range count {
		id, size, rest, ok := cut(b, pairs)
		if total += size; !ok || total > e.limit {
			return ErrPackedEncoder
		}
		e.known[i], b = id, rest
	}
	if len(b) > 0 {
		return ErrPackedEncoder
	}
	return nil
}

// cutIndex reads an entry: the slot of a pair, or pairSlots and the size of an entry that
// is not used again.
func cutIndex(b []byte, pairs *Pairs) (id uint16, size int, rest []byte, ok bool) {
	n, b, ok := cutInteger(b)
	switch {
	case !ok, n > pairSlots+DefaultTableSize, n >= pairSlots && n < pairSlots+fieldlist.FieldOverhead:
		return 0, 0, nil, false
	case n >= pairSlots:
		return uint16(n), n - pairSlots, b, true
	}
	p := pairs.slots[n].Load()
	if p == nil {
		return 0, 0, nil, false
	}
	return uint16(n), p.size, b, true
}

// cutEntry reads an entry: 0, name and value of a pair, or the size of an entry that is
// not used again, at least 32.
func cutEntry(b []byte, pairs *Pairs) (id uint16, size int, rest []byte, ok bool) {
	size, b, ok = cutInteger(b)
	switch {
	case !ok, size > DefaultTableSize, size > 0 && size < fieldlist.FieldOverhead:
		return 0, 0, nil, false
	case size > 0:
		return pairSlots + uint16(size), size, b, true
	}
	name, b, isName := cutPacked(b)
	value, b, isValue := cutPacked(b)
	if !isName || !isValue {
		return 0, 0, nil, false
	}
	code := fieldlist.CodeOf(name)
	n := fieldName{code: code, flaw: fieldlist.NameViolation(code, name)}
	if fieldlist.FieldViolation(n.code, n.flaw, name, value) != fieldlist.None || !mayRepeat(code, name, value) {
		return 0, 0, nil, false
	}
	size = len(name) + len(value) + fieldlist.FieldOverhead
	hash := hashField(code, name, value)
	p, slot := pairs.find(hash, code, name, value)
	if p == nil {
		pairs.add(hash, code, name, value)
		if p, slot = pairs.find(hash, code, name, value); p == nil {
			return pairSlots + uint16(size), size, b, true // the list is full
		}
	}
	return uint16(slot), size, b, true
}
