package field

import (
	"math"
	"slices"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// A Table holds the fields of one message in order. The zero Table is empty and ready
// to use. Slices that it returns stay valid until the table is changed or reset.
type Table struct {
	buf    []byte // the raw head, then what setters have appended; nil only while there are no fields
	raw    int    // length of the raw head, which never changes
	fields []entry
	// slots has the index of the first field of each known ID, plus one.
	slots [numIDs]uint16
	// repeated has a bit for each known ID that has had more than one field since the
	// last Reset.
	repeated uint64
	// KeepNames turns normalisation off: names that are added while it is set are
	// returned, compared and written exactly as they are. Earlier fields stay
	// normalised.
	KeepNames bool
	kept      uint16 // length of the value of Keep, at the start of buf; 0: there is none, or bytes or fields were changed
	owner     Owner
}

// maxSlot is the highest position that a slot can hold. A known field after it is not
// found, which does not happen to reasonable messages.
const maxSlot = 1<<16 - 1

// entry locates one field in buf. A nameLen of 0 means the canonical name of id,
// whose bytes are not stored.
type entry struct {
	nameOff, nameLen   uint32
	valueOff, valueLen uint32
	valueCap           uint32 // bytes reserved for the value, for changes in place
	id                 ID
	isExact            bool // the name is not normalised
	isLine             bool // from nameOff on, buf has exactly the line that AppendLine appends
}

// lineEnd returns where the line of f, which isLine, ends.
func (f *entry) lineEnd() uint32 { return f.valueOff + f.valueLen + uint32(len("\r\n")) }

// entrySize is the size of an entry in memory.
const entrySize = 24

// Reset empties the table and keeps its memory and KeepNames.
func (t *Table) Reset() {
	if !t.owner.Owns() { // new, or a copy by assignment: there is no memory of its own
		*t = Table{buf: []byte{}, KeepNames: t.KeepNames}
		t.owner.Moved()
	}
	t.buf, t.raw = t.buf[:0], 0
	if len(t.fields) > 0 {
		t.fields = t.fields[:0]
		t.slots = [numIDs]uint16{}
	}
	t.repeated = 0
}

// own gives a table that was copied by assignment memory of its own, before a change.
func (t *Table) own() {
	if !t.owner.Owns() { // the first change
		t.claim()
	}
}

func (t *Table) claim() {
	if t.owner.IsCopy() {
		t.buf = slices.Clone(t.buf[:cap(t.buf)])[:len(t.buf)] // what the other one has changed is after len
		t.fields = slices.Clone(t.fields)
	}
	if t.buf == nil {
		t.buf = []byte{}
	}
}

// Moved makes t, a copy by assignment, own the memory that the other table gives up.
func (t *Table) Moved() {
	t.kept = 0
	t.owner.Moved()
}

// Keep makes the field with a known id the one that Again finds, if t has no other and its value is
// not empty.
func (t *Table) Keep(id ID) {
	t.kept = 0
	if len(t.fields) != 1 || t.slots[id] != 1 || !t.owner.Owns() {
		return
	}
	if f := &t.fields[0]; f.valueOff == 0 && !f.isExact && f.valueLen <= math.MaxUint16 { // Set has stored it
		t.kept = uint16(f.valueLen)
	}
}

// IsKept reports whether t has no other field than that of Keep, with the same value.
func (t *Table) IsKept() bool { return t.kept != 0 && len(t.fields) > 0 }

// Again is Set for the ID and the value of the field of Keep, if t has not had another one since.
// Otherwise it changes nothing and returns false. Messages that follow each other mostly have the
// same Content-Type: its bytes are still there.
func (t *Table) Again(id ID, value []byte) bool {
	n := len(value)
	if n == 0 || n != int(t.kept) || t.KeepNames || !t.owner.Owns() || string(t.buf[:n]) != string(value) {
		return false
	}
	t.fields = t.fields[:1]
	t.buf = t.buf[:n]
	t.slots[id] = 1
	return true
}

// Shrink frees memory above the given sizes, for pools.
func (t *Table) Shrink(maxBytes, maxFields int) {
	if cap(t.buf) > maxBytes {
		t.buf, t.kept = []byte{}, 0
	}
	if cap(t.fields) > maxFields {
		t.fields, t.kept = nil, 0
	}
}

// HeldBytes returns how much memory the table keeps for its next use.
func (t *Table) HeldBytes() int { return cap(t.buf) + entrySize*cap(t.fields) }

// Len returns the number of fields.
func (t *Table) Len() int { return len(t.fields) }

// ID returns the ID of field i.
func (t *Table) ID(i int) ID { return t.fields[i].id }

// Name returns the name of field i: unchanged with KeepNames, otherwise normalised.
// The caller must not change it.
func (t *Table) Name(i int) []byte {
	f := &t.fields[i]
	if f.id != Other && !f.isExact {
		return canonical[f.id]
	}
	name := t.buf[f.nameOff : f.nameOff+f.nameLen : f.nameOff+f.nameLen]
	if f.isExact || IsNormalized(name) {
		return name
	}
	return t.normalizeName(i)
}

// normalizeName stores the normalised spelling of an unknown name in new bytes,
// because the raw head must not change.
func (t *Table) normalizeName(i int) []byte {
	t.own()
	f := &t.fields[i]
	off, n := t.store(t.buf[f.nameOff : f.nameOff+f.nameLen])
	t.fields[i].nameOff = off
	name := t.buf[off : off+n : off+n]
	Normalize(name)
	return name
}

// AppendLines appends the lines of the fields whose ID is not in skip, which has the bit 1<<ID for
// each. Lines that follow each other in buf are copied at once. It may write after the result.
func (t *Table) AppendLines(dst []byte, skip uint64) []byte {
	fields := t.fields
	for i := 0; i < len(fields); i++ {
		f := &fields[i]
		if skip>>(f.id%maxIDs)&1 != 0 {
			continue
		}
		if f.isLine {
			from, to := f.nameOff, f.lineEnd()
			for i+1 < len(fields) && fields[i+1].isLine && fields[i+1].nameOff == to && skip>>(fields[i+1].id%maxIDs)&1 == 0 {
				i++
				to = fields[i].lineEnd()
			}
			dst = append(dst, t.buf[from:to]...)
			continue
		}
		if room := lineRoom + int(f.nameLen+f.valueLen); cap(dst)-len(dst) < room {
			dst = slices.Grow(dst, room)
		}
		if f.id != Other && !f.isExact {
			dst = appendLabel(dst, f.id)
		} else {
			dst = append(append(dst, t.Name(i)...), ':', ' ')
		}
		dst = append(dst, t.buf[f.valueOff:f.valueOff+f.valueLen]...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// Value returns the value of field i.
func (t *Table) Value(i int) []byte {
	f := &t.fields[i]
	end := f.valueOff + f.valueLen
	return t.buf[f.valueOff:end:end]
}

// AppendLine appends field i, whose value must be valid, as a line.
func (t *Table) AppendLine(dst []byte, i int) []byte {
	f := &t.fields[i]
	value := t.buf[f.valueOff : f.valueOff+f.valueLen]
	if f.id != Other && !f.isExact {
		return f.id.AppendLine(dst, value)
	}
	dst = append(append(append(dst, t.Name(i)...), ": "...), value...)
	return append(dst, "\r\n"...)
}

// Index returns the position of the first field with a known id, or -1.
func (t *Table) Index(id ID) int { return int(t.slots[id]) - 1 }

// RawValue returns the value of the first field with a known id, or nil. ok tells
// whether it is the one that the raw head has, or has not.
func (t *Table) RawValue(id ID) (value []byte, ok bool) {
	i := t.slots[id]
	if i == 0 {
		return nil, true
	}
	f := &t.fields[i-1]
	end := f.valueOff + f.valueLen
	return t.buf[f.valueOff:end:end], int(f.valueOff) < t.raw
}

// Get returns the value of the first field with a known id, or nil.
func (t *Table) Get(id ID) []byte {
	if i := t.slots[id]; i != 0 {
		return t.Value(int(i) - 1)
	}
	return nil
}

// Find returns the position of the first field named name at or after from, or -1. id
// is Lookup(name), which most callers already have.
func (t *Table) Find(id ID, name []byte, from int) int {
	if id != Other && !t.KeepNames {
		return t.FindID(id, from)
	}
	for i := from; i < len(t.fields); i++ {
		f := &t.fields[i]
		if f.id == id && t.matches(f, name) {
			return i
		}
	}
	return -1
}

// FindID is Find for a known id, in any spelling.
func (t *Table) FindID(id ID, from int) int {
	i := int(t.slots[id]) - 1
	if i < 0 || i >= from {
		return i
	}
	if t.repeated>>id&1 == 0 {
		return -1
	}
	for i = from; i < len(t.fields); i++ {
		if t.fields[i].id == id {
			return i
		}
	}
	return -1
}

func (t *Table) matches(f *entry, name []byte) bool {
	own := t.buf[f.nameOff : f.nameOff+f.nameLen]
	switch {
	case f.isExact:
		return string(own) == string(name)
	case f.id != Other:
		own = canonical[f.id]
	}
	return ascii.EqualFold(own, name) && (!t.KeepNames || IsNormalized(name))
}

// Add appends a field. It does not validate name. If id != Other and normalisation is
// on, it does not store name's bytes.
func (t *Table) Add(id ID, name, value []byte) {
	if t.KeepNames {
		t.addExact(id, name, value)
		return
	}
	t.own()
	t.reserve(len(name) + len(value))
	f := entry{id: id}
	if id == Other {
		f.nameOff, f.nameLen = t.store(name)
		Normalize(t.buf[f.nameOff : f.nameOff+f.nameLen])
	}
	f.valueOff, f.valueLen = t.store(value)
	f.valueCap = f.valueLen
	t.push(f)
}

// AddExact appends a field whose name is never normalised. It is found by exactly
// that name and by no ID, so the library must not depend on its meaning.
func (t *Table) AddExact(name, value []byte) { t.addExact(Other, name, value) }

// addExact appends a field with the bytes of name.
func (t *Table) addExact(id ID, name, value []byte) {
	t.own()
	t.reserve(len(name) + len(value))
	f := entry{id: id, isExact: true}
	f.nameOff, f.nameLen = t.store(name)
	f.valueOff, f.valueLen = t.store(value)
	f.valueCap = f.valueLen
	t.push(f)
}

// AddLine is Add for a known id, and stores the line as AppendLine appends it.
func (t *Table) AddLine(id ID, value []byte) {
	if t.KeepNames {
		t.addExact(id, canonical[id], value)
		return
	}
	t.own()
	room := lineRoom + len(value)
	t.reserve(room)
	if room > cap(t.buf)-len(t.buf) {
		t.part()
	}
	name := len(t.buf)
	t.buf = id.AppendLine(t.buf, value)
	// It has no room for a change in place: the line ends after the value.
	t.push(entry{nameOff: uint32(name), valueOff: uint32(name + labels[id%maxIDs].n), valueLen: uint32(len(value)), id: id, isLine: true})
}

// AddAll adds the fields of from, which have known IDs that t does not have.
func (t *Table) AddAll(from *Table) {
	if t.KeepNames || len(t.fields)+len(from.fields) > maxSlot {
		for i := range from.fields {
			t.Add(from.ID(i), from.Name(i), from.Value(i))
		}
		return
	}
	t.own()
	t.reserve(len(from.buf))
	off, _ := t.store(from.buf)
	n := len(t.fields)
	t.kept = 0
	t.fields = append(t.fields, from.fields...)
	for i := n; i < len(t.fields); i++ {
		f := &t.fields[i]
		f.nameOff += off
		f.valueOff += off
		t.slots[f.id] = uint16(i + 1)
	}
}

// push appends an entry and sets the slot of its ID.
func (t *Table) push(f entry) {
	t.kept = 0
	t.fields = append(t.fields, f)
	switch {
	case f.id == Other:
	case t.slots[f.id] != 0:
		t.repeated |= 1 << f.id
	case len(t.fields) <= maxSlot:
		t.slots[f.id] = uint16(len(t.fields))
	}
}

// Repeats reports whether t has had more than one field with a known id since the last
// Reset.
func (t *Table) Repeats(id ID) bool { return t.repeated>>id&1 != 0 }

// KeepLast removes all fields except the last of each known ID in ids, which has the
// bit 1<<ID for each.
func (t *Table) KeepLast(ids uint64) {
	if ids &= t.repeated; ids != 0 { // hardly ever
		t.keepLast(ids)
	}
}

func (t *Table) keepLast(ids uint64) {
	t.own()
	var last [numIDs]int
	for i := range t.fields {
		last[t.fields[i].id] = i
	}
	kept := t.fields[:0]
	for i, f := range t.fields {
		if ids>>f.id&1 == 0 || last[f.id] == i {
			kept = append(kept, f)
		}
	}
	t.fields = kept
	t.repeated &^= ids
	t.reindex()
}

// Join makes one field of all fields with a known ID: their values are one list (RFC 9110
// section 5.3). Empty values are left out. The field is where the last one was.
func (t *Table) Join(id ID) {
	if t.Repeats(id) { // hardly ever
		t.join(id)
	}
}

func (t *Table) join(id ID) {
	var list []byte
	last := -1
	for i := t.FindID(id, 0); i >= 0; i = t.FindID(id, i+1) {
		list = ascii.AppendMembers(list, t.Value(i))
		last = i
	}
	t.SetValue(last, list)
	t.KeepLast(1 << id)
}

// compactAbove is the size from which a table removes garbage before it grows.
// Otherwise a message that is reused without Reset would grow for ever.
const compactAbove = 4096

// reserve makes room for n bytes, so that the following stores do not move what they
// stored.
func (t *Table) reserve(n int) {
	if need := len(t.buf) + n; need > cap(t.buf) && need > compactAbove {
		t.compact(n)
	}
}

func (t *Table) store(s []byte) (off, n uint32) {
	if len(s) > cap(t.buf)-len(t.buf) {
		t.part()
	}
	off = uint32(len(t.buf))
	t.buf = append(t.buf, s...)
	return off, uint32(len(s))
}

// part takes new memory for the entries, before buf moves: a copy by assignment keeps the old
// buf, and entries that fit it.
func (t *Table) part() { t.fields = append(make([]entry, 0, cap(t.fields)), t.fields...) }

// compact copies the used bytes after the raw head into a new buffer with room for
// more bytes. The old buffer does not change, because returned slices may refer to
// it.
func (t *Table) compact(more int) {
	t.part()
	live := t.raw + more
	for i := range t.fields {
		live += int(t.fields[i].nameLen + t.fields[i].valueLen)
	}
	buf := append(make([]byte, 0, 2*live), t.buf[:t.raw]...)
	move := func(off, n uint32) uint32 {
		if int(off) < t.raw {
			return off
		}
		at := uint32(len(buf))
		buf = append(buf, t.buf[off:off+n]...)
		return at
	}
	for i := range t.fields {
		f := &t.fields[i]
		f.nameOff = move(f.nameOff, f.nameLen)
		f.valueOff = move(f.valueOff, f.valueLen)
		f.valueCap = f.valueLen
		f.isLine = f.isLine && int(f.nameOff) < t.raw
	}
	t.buf = buf
}

// SetValue replaces the value of field i. It does so in place if the value fits and
// the old one is not part of the raw head.
func (t *Table) SetValue(i int, value []byte) {
	t.own()
	t.kept = 0
	f := &t.fields[i]
	f.isLine = false
	if len(value) <= int(f.valueCap) && int(f.valueOff) >= t.raw {
		copy(t.buf[f.valueOff:f.valueOff+f.valueCap], value)
		f.valueLen = uint32(len(value))
		return
	}
	t.reserve(len(value))
	off, n := t.store(value)
	f = &t.fields[i] // it may have moved
	f.valueOff, f.valueLen, f.valueCap = off, n, n
}

// Set replaces the value of the first field with a known id, or adds a field.
func (t *Table) Set(id ID, value []byte) {
	t.own()
	t.kept = 0
	if i := t.slots[id]; i != 0 {
		t.SetValue(int(i)-1, value)
		return
	}
	if t.KeepNames {
		t.addExact(id, canonical[id], value)
		return
	}
	if len(value) > cap(t.buf)-len(t.buf) {
		t.reserve(len(value))
		t.part()
	}
	n := uint32(len(value))
	t.fields = append(t.fields, entry{id: id, valueOff: uint32(len(t.buf)), valueLen: n, valueCap: n})
	if len(t.fields) <= maxSlot {
		t.slots[id] = uint16(len(t.fields))
	}
	t.buf = append(t.buf, value...) // last, because nothing else is needed after the copy
}

// Replace is Set, but does not change the bytes of the old value, which callers may
// still read.
func (t *Table) Replace(id ID, value []byte) {
	t.own()
	if i := t.slots[id]; i != 0 {
		t.fields[int(i)-1].valueCap = 0
	}
	t.Set(id, value)
}

// DelAt removes field i.
func (t *Table) DelAt(i int) {
	t.own()
	t.fields = append(t.fields[:i], t.fields[i+1:]...)
	t.reindex()
}

// Del removes every field of that name.
func (t *Table) Del(id ID, name []byte) {
	t.own()
	kept := t.fields[:0]
	for i := range t.fields {
		f := t.fields[i]
		same := f.id == id && (id != Other && !t.KeepNames || t.matches(&f, name))
		if !same {
			kept = append(kept, f)
		}
	}
	if len(kept) != len(t.fields) {
		t.fields = kept
		t.reindex()
	}
}

// DelID removes every field with a known id, in any spelling.
func (t *Table) DelID(id ID) {
	if t.slots[id] == 0 {
		return
	}
	t.own()
	kept := t.fields[:0]
	for _, f := range t.fields {
		if f.id != id {
			kept = append(kept, f)
		}
	}
	t.fields = kept
	t.reindex()
}

// Filter removes the fields whose ID is in ids, which has the bit 1<<ID for each, and those without
// one of which drops reports true. drops gets the name as it was received or set.
func (t *Table) Filter(ids uint64, drops func(name []byte) bool) {
	t.own()
	fields, kept := t.fields, 0
	for i := range fields {
		f := &fields[i]
		if f.id != Other {
			if ids>>(f.id%maxIDs)&1 != 0 {
				continue
			}
		} else if drops(t.buf[f.nameOff : f.nameOff+f.nameLen]) {
			continue
		}
		if kept != i {
			fields[kept] = *f
		}
		kept++
	}
	if kept != len(t.fields) {
		t.fields = t.fields[:kept]
		t.reindex()
	}
}

// reindex sets the slots after fields have moved.
func (t *Table) reindex() {
	t.slots = [numIDs]uint16{}
	for i := range t.fields {
		if id := t.fields[i].id; id != Other && t.slots[id] == 0 && i < maxSlot {
			t.slots[id] = uint16(i + 1)
		}
	}
}

// CopyTo makes dst equal to t.
func (t *Table) CopyTo(dst *Table) {
	dst.own()
	dst.kept = 0
	if len(t.buf) > cap(dst.buf) {
		dst.fields = nil
	}
	dst.buf = append(dst.buf[:0], t.buf...)
	dst.fields = append(dst.fields[:0], t.fields...)
	dst.slots = t.slots
	dst.repeated = t.repeated
	dst.raw = t.raw
	dst.KeepNames = t.KeepNames
}

// CopyWith makes dst equal to a table that was parsed from t's raw head with text in place of
// its bytes from start to end, which are a part of no field.
func (t *Table) CopyWith(dst *Table, start, end int, text []byte) {
	dst.own()
	dst.kept = 0
	if len(t.buf)+len(text) > cap(dst.buf) {
		dst.fields = nil
	}
	delta := uint32(len(text) - (end - start)) // may wrap
	dst.buf = append(append(append(dst.buf[:0], t.buf[:start]...), text...), t.buf[end:]...)
	dst.fields = append(dst.fields[:0], t.fields...)
	for i := range dst.fields {
		f := &dst.fields[i]
		if int(f.nameOff) >= end {
			f.nameOff += delta
		}
		if int(f.valueOff) >= end {
			f.valueOff += delta
		}
	}
	dst.slots = t.slots
	dst.repeated = t.repeated
	dst.raw = len(dst.buf)
	dst.KeepNames = t.KeepNames
}

// Raw returns the buffer that a parser fills with Append: first the raw head, later
// also what setters have stored.
func (t *Table) Raw() []byte { return t.buf }

// Append adds bytes to the raw head that is being received. t is new, or was reset before: it
// owns its memory without a check.
func (t *Table) Append(raw []byte) {
	t.store(raw)
	t.Moved()
}

// SetRaw replaces the buffer by head, which a parser has made by appending to Raw.
func (t *Table) SetRaw(head []byte) {
	t.own()
	t.kept = 0
	if cap(head) > cap(t.buf) {
		t.part()
	}
	t.buf = head
}

// Seal ends the raw head at n bytes. Later bytes are stored after it.
func (t *Table) Seal(n int) {
	t.buf = t.buf[:n]
	t.raw = n
}

// PushParsed records a field by its offsets in the raw head. t was reset before the first.
func (t *Table) PushParsed(id ID, nameOff, nameEnd, valueOff, valueEnd int) {
	t.push(entry{
		nameOff: uint32(nameOff), nameLen: uint32(nameEnd - nameOff),
		valueOff: uint32(valueOff), valueLen: uint32(valueEnd - valueOff),
		valueCap: uint32(valueEnd - valueOff),
		id:       id,
		isExact:  t.KeepNames,
	})
}

// Start returns where the line of field i, which was parsed, starts in the raw head.
func (t *Table) Start(i int) int { return int(t.fields[i].nameOff) }

// Offsets returns where name and value of field i, which was parsed, start and end in the raw head.
func (t *Table) Offsets(i int) (name, nameEnd, value, valueEnd int) {
	f := &t.fields[i]
	return int(f.nameOff), int(f.nameOff + f.nameLen), int(f.valueOff), int(f.valueOff + f.valueLen)
}

// Remember makes t, which is empty, a copy of the first n fields of from, which were
// parsed and lie between start and end of its raw head.
func (t *Table) Remember(from *Table, n, start, end int) {
	t.Append(from.buf[start:end])
	t.Seal(end - start)
	for _, f := range from.fields[:n] {
		f.nameOff -= uint32(start)
		f.valueOff -= uint32(start)
		f.isLine = t.hasLine(&f)
		t.push(f)
	}
}

// hasLine reports whether f, which has a known name and was parsed, isLine.
func (t *Table) hasLine(f *entry) bool {
	label, end := &labels[f.id%maxIDs], int(f.lineEnd())
	return label.n > 0 && string(t.buf[f.nameOff:f.valueOff]) == string(label.text[:label.n]) &&
		end <= len(t.buf) && string(t.buf[f.valueOff+f.valueLen:end]) == "\r\n"
}

// Shift adds delta to the positions of the fields of a table that Remember has made.
func (t *Table) Shift(delta int) {
	for i := range t.fields {
		f := &t.fields[i]
		f.nameOff += uint32(delta)
		f.valueOff += uint32(delta)
	}
}

// Recall adds the fields of a table that Remember has made, and Shift has moved to where
// their bytes are in the raw head that t will have, to t, which was reset.
func (t *Table) Recall(from *Table) {
	t.kept = 0
	if n := len(from.fields); n > cap(t.fields) {
		t.fields = slices.Clone(from.fields)
	} else {
		t.fields = t.fields[:n]
		copy(t.fields, from.fields)
	}
	t.slots = from.slots
	t.repeated = from.repeated
}
