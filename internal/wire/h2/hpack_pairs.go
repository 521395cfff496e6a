package h2

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

const (
	maxPairs      = 256 // in a list
	pairSlots     = 512 // a power of two: half of the slots stay empty
	maxNamesakes  = 16  // pairs with one name: a name with many values does not fill the list
	maxPairText   = 448 // bytes of the value, and of a name that the static table may not have
	sightings     = 4   // of a field until it is a pair
	candidateMask = pairSlots - 1
)

// Pairs is a list of at most 256 fields that repeat, which all connections of a server
// or of a client share. Encoders find out which fields these are; only these do they
// put into the tables of their peers. Pairs are added and never removed, so that a slot
// means the same for ever. Any number of Encoders may use it at once, without a lock.
// The zero value is an empty list.
type Pairs struct {
	slots [pairSlots]atomic.Pointer[pair]
	count atomic.Int32
	// candidates counts sightings. Each has the upper 24 bits of a hash, and a number
	// that other fields with the same slot bring down. A lost update does no harm.
	candidates [pairSlots]atomic.Uint32
	// The last values of AppendServer that are pairs.
	server, altSvc atomic.Pointer[constant]
}

// A constant is a pair by the place of its value in the memory, and its slot. It does not change.
type constant struct {
	value *byte // its first byte
	size  int
	slot  uint16
}

// is reports whether value, which is not empty, is that of c, which may be nil.
func (c *constant) is(value []byte) bool {
	return c != nil && c.value == &value[0] && c.size == len(value)
}

// A pair is a field that repeats. It does not change.
type pair struct {
	code        fieldlist.Code
	name, value []byte // name in lower case
	literal     []byte // literal field with incremental indexing
	size        int    // as RFC 7541 section 4.1 counts
}

func (p *pair) is(code fieldlist.Code, name, value []byte) bool {
	return p.code == code && string(p.value) == string(value) &&
		(code != fieldlist.Other || ascii.EqualFold(p.name, name))
}

// hashField hashes a field by parts of its value and, if code is fieldlist.Other, of its
// name, in any case.
func hashField(code fieldlist.Code, name, value []byte) uint32 {
	h := (uint64(code)<<32 + uint64(len(value))) * 0x9e3779b97f4a7c15
	h = mix(h, value, 0)
	if code == fieldlist.Other {
		h = mix(h, name, 0x2020202020202020)
	}
	return uint32(h >> 32)
}

// mix adds the first, middle and last bytes of s to h.
func mix(h uint64, s []byte, fold uint64) uint64 {
	const prime = 0xff51afd7ed558ccd
	n := len(s)
	if n < 8 {
		for _, c := range s {
			h = (h ^ uint64(c|byte(fold))) * prime
		}
		return h ^ h>>32
	}
	for _, at := range [...]int{0, n/2 - 4, n - 8} {
		h = (h ^ (binary.LittleEndian.Uint64(s[at:]) | fold)) * prime
		h ^= h >> 32
	}
	return h
}

// find returns the pair of a field and its slot, or nil.
func (l *Pairs) find(hash uint32, code fieldlist.Code, name, value []byte) (p *pair, slot int) {
	for i := hash; ; i++ {
		slot = int(i & (pairSlots - 1))
		if p = l.slots[slot].Load(); p == nil || p.is(code, name, value) {
			return p, slot
		}
	}
}

// sight counts a field that is no pair, and makes it one if it repeats.
func (l *Pairs) sight(hash uint32, code fieldlist.Code, name, value []byte) {
	if l.count.Load() >= maxPairs || !mayRepeat(code, name, value) {
		return
	}
	candidate := &l.candidates[hash>>8&candidateMask]
	was := candidate.Load()
	switch {
	case was>>8 == hash>>8 && was&0xff+1 >= sightings:
		l.add(hash, code, name, value)
		candidate.Store(0)
	case was>>8 == hash>>8, was&0xff == 0:
		candidate.Store(hash&^0xff | was&0xff + 1)
	case was&0xff > 1:
		candidate.Store(was - 1)
	default:
		candidate.Store(hash&^0xff | 1)
	}
}

// volatile is the set of the fields whose values repeat by chance, or are secret (RFC
// 7541 section 7.1.3).
const volatile uint64 = fieldlist.Secret | 1<<field.ContentLength | 1<<field.Date | 1<<field.ETag | 1<<field.LastModified |
	1<<field.Location | 1<<field.ContentRange | 1<<field.Range | 1<<field.Referer | 1<<field.IfRange |
	1<<field.IfMatch | 1<<field.IfNoneMatch | 1<<field.IfModifiedSince | 1<<field.IfUnmodifiedSince

// mayRepeat reports whether a field can become a pair.
func mayRepeat(code fieldlist.Code, name, value []byte) bool {
	text := len(value)
	if code == fieldlist.Other {
		text += len(name)
	}
	if text > maxPairText || fieldlist.IsSecret(code, name) {
		return false
	}
	if code.IsPseudo() {
		return code != fieldlist.PseudoPath
	}
	return volatile>>code&1 == 0
}

// add makes a field a pair, if the list has room.
func (l *Pairs) add(hash uint32, code fieldlist.Code, name, value []byte) {
	namesakes := 0
	for i := range l.slots {
		if p := l.slots[i].Load(); p != nil && p.code == code && (code != fieldlist.Other || ascii.EqualFold(p.name, name)) {
			namesakes++
		}
	}
	if namesakes >= maxNamesakes {
		return
	}
	if l.count.Add(1) > maxPairs {
		l.count.Add(-1)
		return
	}
	p := newPair(code, name, value)
	for {
		found, slot := l.find(hash, code, name, value)
		if found != nil { // another goroutine was faster
			l.count.Add(-1)
			return
		}
		if l.slots[slot].CompareAndSwap(nil, p) {
			return
		}
	}
}

func newPair(code fieldlist.Code, name, value []byte) *pair {
	p := &pair{code: code, name: ascii.AppendLower(nil, name), value: bytes.Clone(value)}
	if static := staticOfCode[code]; static != 0 {
		p.name = []byte(staticFields[static].name)
	}
	p.size = len(p.name) + len(value) + fieldlist.FieldOverhead
	p.literal = appendLiteral(nil, 0x40, 6, code, p.name)
	p.literal = fieldlist.AppendString(p.literal, 0, 7, value)
	return p
}

// appendLiteral appends the beginning of a literal field: the first bits and the name
// (RFC 7541 section 6.2).
func appendLiteral(dst []byte, first byte, prefix int, code fieldlist.Code, name []byte) []byte {
	if static := staticOfCode[code]; static != 0 {
		return fieldlist.AppendInteger(dst, first, prefix, int(static))
	}
	var room [64]byte
	lower := ascii.AppendLower(room[:0], name)
	if static := staticName(code, lower); static != 0 {
		return fieldlist.AppendInteger(dst, first, prefix, int(static))
	}
	return fieldlist.AppendString(append(dst, first), 0, 7, lower)
}
