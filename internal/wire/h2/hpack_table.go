package h2

import (
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

const (
	// DefaultTableSize is the size of a dynamic table before the settings say
	// otherwise (RFC 9113 section 6.5.2).
	DefaultTableSize = 4096
	// MaxTableSize is the largest dynamic table that a Decoder keeps.
	MaxTableSize = 1 << 16
)

// staticOfCode has the first index in the static table for each code, or 0.
var staticOfCode = func() (indices [256]uint8) {
	for i := len(staticFields) - 1; i > 0; i-- {
		if code := staticFields[i].code; code != fieldlist.Other {
			indices[code] = uint8(i)
		}
	}
	return indices
}()

// staticName returns the first index in the static table for a name in lower case,
// whose code is code, or 0.
func staticName(code fieldlist.Code, name []byte) uint8 {
	if code != fieldlist.Other {
		return staticOfCode[code]
	}
	for _, i := range otherStatics {
		if staticFields[i].name == string(name) {
			return i
		}
	}
	return 0
}

// otherStatics are the indices of the names in the static table that have no code.
var otherStatics = func() (indices []uint8) {
	for i := range staticFields {
		if i > 0 && staticFields[i].code == fieldlist.Other {
			indices = append(indices, uint8(i))
		}
	}
	return indices
}()

// A fieldName is the name of a field, without the bytes of those that the static
// table has.
type fieldName struct {
	code   fieldlist.Code
	static uint8               // the first index in the static table, or 0: the name is written out
	flaw   fieldlist.Violation // of the name or, in an entry, of name or value
}

// A tableEntry locates an entry in the bytes of its table.
type tableEntry struct {
	at                  uint32 // of the name, if it is written out, and the value after it
	nameSize, valueSize uint16
	fieldName
}

func (e *tableEntry) nameLen() int {
	if e.static != 0 {
		return len(staticFields[e.static].name)
	}
	return int(e.nameSize)
}

func (e *tableEntry) size() int { return e.nameLen() + int(e.valueSize) + fieldlist.FieldOverhead }

// A dynamicTable is the dynamic table of a decoder (RFC 7541 section 2.3.2). Bytes and
// entries are in rings whose sizes are powers of two. These grow with use; max bounds
// them. Positions count up and wrap.
type dynamicTable struct {
	bytes      []byte
	head, tail uint32 // the used bytes
	entries    []tableEntry
	first      uint32 // position of the oldest entry
	count      int
	size, max  int    // as RFC 7541 section 4.1 counts
	changes    uint32 // counts the changes of the table
}

// reset empties the table, and keeps its memory.
func (t *dynamicTable) reset(size int) {
	*t = dynamicTable{bytes: t.bytes, entries: t.entries, max: size, changes: t.changes + 1}
}

// get returns an entry; the newest is 0.
func (t *dynamicTable) get(i int) *tableEntry {
	return &t.entries[(t.first+uint32(t.count-1-i))&uint32(len(t.entries)-1)]
}

// appendBytes appends n bytes of the ring from at on.
func (t *dynamicTable) appendBytes(dst []byte, at uint32, n int) []byte {
	start := int(at & uint32(len(t.bytes)-1))
	if end := start + n; end <= len(t.bytes) {
		return append(dst, t.bytes[start:end]...)
	}
	dst = append(dst, t.bytes[start:]...)
	return append(dst, t.bytes[:n-(len(t.bytes)-start)]...)
}

// appendName appends the name of e in lower case.
func (t *dynamicTable) appendName(dst []byte, e *tableEntry) []byte {
	if e.static != 0 {
		return append(dst, staticFields[e.static].name...)
	}
	return t.appendBytes(dst, e.at, int(e.nameSize))
}

func (t *dynamicTable) appendValue(dst []byte, e *tableEntry) []byte {
	return t.appendBytes(dst, e.at+uint32(e.nameSize), int(e.valueSize))
}

// resize sets the maximum size.
func (t *dynamicTable) resize(size int) {
	t.max = size
	t.evict(0)
}

// evict removes the oldest entries until there is room for an entry of that size. Each
// change of the table begins with it.
func (t *dynamicTable) evict(size int) {
	t.changes++
	for t.count > 0 && t.size+size > t.max {
		e := &t.entries[t.first&uint32(len(t.entries)-1)]
		t.size -= e.size()
		t.head += uint32(e.nameSize) + uint32(e.valueSize)
		t.first++
		t.count--
	}
}

// insert adds an entry. name has the bytes of a name that is not in the static table.
// An entry that is larger than the table empties it (RFC 7541 section 4.4).
func (t *dynamicTable) insert(n fieldName, name, value []byte) {
	size := len(name) + len(value) + fieldlist.FieldOverhead
	if n.static != 0 {
		size += len(staticFields[n.static].name)
	}
	t.evict(size)
	if size > t.max {
		return
	}
	if t.count == len(t.entries) {
		t.growEntries()
	}
	if used := int(t.tail - t.head); used+len(name)+len(value) > len(t.bytes) {
		t.growBytes(used + len(name) + len(value))
	}
	e := tableEntry{at: t.tail, nameSize: uint16(len(name)), valueSize: uint16(len(value)), fieldName: n}
	t.entries[(t.first+uint32(t.count))&uint32(len(t.entries)-1)] = e
	t.count++
	t.size += size
	t.write(name)
	t.write(value)
}

// write appends s to the ring, which has room for it.
func (t *dynamicTable) write(s []byte) {
	if len(s) == 0 {
		return
	}
	n := copy(t.bytes[t.tail&uint32(len(t.bytes)-1):], s)
	copy(t.bytes, s[n:])
	t.tail += uint32(len(s))
}

func (t *dynamicTable) growEntries() {
	entries := make([]tableEntry, max(8, 2*len(t.entries)))
	for i := range t.count {
		at := t.first + uint32(i)
		entries[at&uint32(len(entries)-1)] = t.entries[at&uint32(len(t.entries)-1)]
	}
	t.entries = entries
}

func (t *dynamicTable) growBytes(need int) {
	size := max(256, len(t.bytes))
	for size < need {
		size *= 2
	}
	old, tail := *t, t.tail
	t.bytes, t.tail = make([]byte, size), t.head
	t.write(old.appendBytes(nil, t.head, int(tail-t.head)))
}

// appendPacked appends the entries, the oldest first. Each is the index of its name in
// the static table, or 0 and the name, and then its value. Lengths are uvarints.
func (t *dynamicTable) appendPacked(dst []byte) []byte {
	for i := t.count - 1; i >= 0; i-- {
		e := t.get(i)
		dst = append(dst, e.static)
		if e.static == 0 {
			dst = binary.AppendUvarint(dst, uint64(e.nameSize))
			dst = t.appendName(dst, e)
		}
		dst = binary.AppendUvarint(dst, uint64(e.valueSize))
		dst = t.appendValue(dst, e)
	}
	return dst
}

// unpack adds the entries in b, which appendPacked has made for a table of the same
// maximum size.
func (t *dynamicTable) unpack(b []byte) error {
	if n := min(len(b), t.max); n > len(t.bytes) {
		t.growBytes(n) // at once
	}
	for len(b) > 0 {
		var n fieldName
		var name, value []byte
		var ok bool
		n.static, b = b[0], b[1:]
		if n.static == 0 {
			if name, b, ok = cutPacked(b); !ok {
				return ErrPackedDecoder
			}
			n.code = fieldlist.CodeOf(name) // in any case: also of "Host", which is not a name in HTTP/2
			if n.flaw = fieldlist.NameViolation(n.code, name); n.flaw == fieldlist.None && staticName(n.code, name) != 0 {
				return ErrPackedDecoder
			}
		} else {
			if int(n.static) >= len(staticFields) {
				return ErrPackedDecoder
			}
			f := &staticFields[n.static]
			if n.code = f.code; staticName(f.code, []byte(f.name)) != n.static {
				return ErrPackedDecoder
			}
		}
		if value, b, ok = cutPacked(b); !ok {
			return ErrPackedDecoder
		}
		n.flaw = fieldlist.FieldViolation(n.code, n.flaw, name, value)
		count := t.count
		if t.insert(n, name, value); t.count != count+1 {
			return ErrPackedDecoder // it did not fit, or evicted another
		}
	}
	return nil
}
