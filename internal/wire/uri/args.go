package uri

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// Args is an ordered list of key=value pairs in the notation of
// application/x-www-form-urlencoded. Its zero value is empty. Slices that
// methods return stay valid until the list is changed; those that methods take
// are copied. A list holds at most 2 GiB of text, and drops what exceeds that.
type Args struct {
	text  []byte // keys and values, and bytes that no pair has any more
	pairs []pair
	buf   *[]byte // result of QueryString; nil: it was not called
	owner field.Owner
}

// pair says where key and value are in Args.text. Places of different pairs have
// no byte in common.
type pair struct {
	key, value place
	room       uint32 // bytes at the start of value that the pair may use
	hasNoValue bool   // "key", not "key="
}

// place is a range of Args.text. A form may have a pair for every two of its bytes, so a pair is
// half as large as with int.
type place struct{ start, end uint32 }

// maxText limits Args.text, so that a place can have all of it.
const maxText = math.MaxInt32

// maxParsed limits the pairs that Parse makes of one text. A peer chooses how many there
// are, and a pair takes up more memory than the two bytes that it needs in a form.
const maxParsed = 1 << 16

// fits reports whether n more bytes fit into a text of length used.
func fits(used, n int) bool { return n <= maxText-used }

func (a *Args) at(p place) []byte { return a.text[p.start:p.end:p.end] }

// Reset removes all pairs. It keeps the memory for the next use.
func (a *Args) Reset() {
	if a.owner.IsCopy() {
		*a = Args{owner: a.owner}
	}
	a.text = a.text[:0]
	a.pairs = a.pairs[:0]
}

// HeldBytes is the memory that a keeps for its next use.
func (a *Args) HeldBytes() int {
	const pairSize = 24
	n := cap(a.text) + pairSize*cap(a.pairs)
	if a.buf != nil {
		n += cap(*a.buf)
	}
	return n
}

// CopyTo makes dst a copy of a that shares no memory with it.
func (a *Args) CopyTo(dst *Args) {
	if a == dst {
		return
	}
	dst.Reset()
	if cap(dst.text) < len(a.text) {
		dst.pairs = nil // copies by assignment keep them, with the old text
	}
	dst.text = append(dst.text, a.text...)
	dst.pairs = append(dst.pairs, a.pairs...)
}

// Len returns the number of pairs.
func (a *Args) Len() int { return len(a.pairs) }

// All yields the pairs in order; neither slice is nil. a may be changed during
// the iteration; pairs that are added are yielded, too.
func (a *Args) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for i := 0; i < len(a.pairs); i++ {
			if !yield(orEmpty(a.at(a.pairs[i].key)), orEmpty(a.at(a.pairs[i].value))) {
				return
			}
		}
	}
}

// orEmpty returns b, or an empty slice if b is nil: a nil slice stands for an
// absent value.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Parse replaces the pairs with those of b, decoded. Malformed
// percent-encodings are kept verbatim. Pairs with neither key nor value are left out,
// and so are those after the first 65,536. b must not be part of a.
//
// It copies b once, looks at eight bytes at a time, and at single ones only where
// they mean something.
func (a *Args) Parse(b []byte) {
	a.Reset()
	if len(b) == 0 {
		return
	}
	if !fits(0, len(b)) {
		b = b[:maxText]
	}
	// Each pair ends with "&", the last one, too, and b can be read in whole words.
	const end = '&' * ones
	if n := len(b) + 8; n > cap(a.text) {
		a.text, a.pairs = make([]byte, 0, 2*n), nil // copies by assignment keep the old ones
	}
	rest := a.text[:len(b)+8]
	copy(rest, b)
	a.text = a.text[:len(b)]
	binary.LittleEndian.PutUint64(rest[len(b):], end)
	pairs, n := a.pairs[:cap(a.pairs)], 0
	if len(pairs) > maxParsed {
		pairs = pairs[:maxParsed]
	}
	start, equals, isEncoded := 0, -1, false
	for read := 0; len(rest) >= 8; rest, read = rest[8:], read+8 {
		for marks := delimiters(binary.LittleEndian.Uint64(rest)); marks != 0; marks &= marks - 1 {
			i := bits.TrailingZeros64(marks) / 8 & 7
			at := read + i
			switch rest[i] {
			case '%', '+':
				isEncoded = true
			case '=':
				if equals < 0 {
					equals = at
				}
			case '&':
				value := equals + 1
				if equals < 0 {
					equals, value = at, at
				}
				if start < equals || value < at {
					if n == len(pairs) {
						if n == maxParsed {
							a.pairs = pairs
							return
						}
						a.pairs = slices.Grow(pairs, 1)
						pairs = a.pairs[:min(cap(a.pairs), maxParsed)]
					}
					p := &pairs[n]
					n++
					p.key, p.value = place{uint32(start), uint32(equals)}, place{uint32(value), uint32(at)}
					p.room, p.hasNoValue = uint32(at-value), equals == at
					if isEncoded {
						a.decode(p)
					}
				}
				if at >= len(b) {
					a.pairs = a.pairs[:n]
					return
				}
				start, equals, isEncoded = at+1, -1, false
			}
		}
	}
}

// delimiters marks the bytes of w that mean something in a query, "=", "&", "%" and
// "+", by their top bits. It also marks some that do not: all below ",", most that are not
// ASCII, and a few after one that it marks.
func delimiters(w uint64) uint64 { return ((w ^ '='*ones - ones) | (w - ','*ones)) & tops }

// decode decodes p, in place.
func (a *Args) decode(p *pair) {
	key, value := a.at(p.key), a.at(p.value)
	p.key.end = p.key.start + uint32(len(ascii.AppendUnescapedArg(key[:0], key)))
	p.value.end = p.value.start + uint32(len(ascii.AppendUnescapedArg(value[:0], value)))
}

// QueryString returns the encoded pairs. It is valid until the next call, or a
// change of a.
func (a *Args) QueryString() []byte {
	a.own()
	if a.buf == nil {
		a.buf = new([]byte)
	}
	*a.buf = a.AppendBytes((*a.buf)[:0])
	return *a.buf
}

// AppendBytes appends the encoded pairs to dst.
func (a *Args) AppendBytes(dst []byte) []byte {
	for i := range a.pairs {
		if i > 0 {
			dst = append(dst, '&')
		}
		p := &a.pairs[i]
		dst = ascii.AppendArg(dst, a.at(p.key))
		if !p.hasNoValue {
			dst = append(dst, '=')
			dst = ascii.AppendArg(dst, a.at(p.value))
		}
	}
	return dst
}

// Sort orders the pairs by key, and pairs with the same key by value. Equal
// pairs keep their order.
func (a *Args) Sort(compare func(x, y []byte) int) {
	a.own()
	slices.SortStableFunc(a.pairs, func(x, y pair) int {
		if order := compare(a.at(x.key), a.at(y.key)); order != 0 {
			return order
		}
		return compare(a.at(x.value), a.at(y.value))
	})
}

// SortKeys orders the pairs by key. Pairs with the same key keep their order.
func (a *Args) SortKeys(compare func(x, y []byte) int) {
	a.own()
	slices.SortStableFunc(a.pairs, func(x, y pair) int { return compare(a.at(x.key), a.at(y.key)) })
}

// Del removes all pairs with the given key.
func (a *Args) Del(key []byte) {
	a.own()
	kept := 0
	for i := range a.pairs {
		if !bytes.Equal(a.at(a.pairs[i].key), key) {
			a.pairs[kept], a.pairs[i] = a.pairs[i], a.pairs[kept] // a copy by assignment keeps all
			kept++
		}
	}
	a.pairs = a.pairs[:kept]
}

// Add appends a pair, even if there is one with the same key.
func (a *Args) Add(key, value []byte, hasNoValue bool) {
	a.own()
	if a.reserve(len(key) + len(value)) {
		a.pairs = append(a.pairs, pair{a.store(key), a.store(value), uint32(len(value)), hasNoValue})
	}
}

// Set sets the value of the first pair with the given key, or appends a pair if
// there is none. Other pairs with the key stay.
func (a *Args) Set(key, value []byte, hasNoValue bool) {
	a.own()
	p := a.find(key)
	if p == nil {
		a.Add(key, value, hasNoValue)
		return
	}
	p.hasNoValue = hasNoValue
	if len(value) <= int(p.room) {
		p.value.end = p.value.start + uint32(copy(a.text[p.value.start:], value))
		return
	}
	if a.reserve(len(value)) {
		p = a.find(key) // it may have moved
		p.value, p.room = a.store(value), uint32(len(value))
	}
}

func (a *Args) store(s []byte) place {
	start := len(a.text)
	a.text = append(a.text, s...)
	return place{uint32(start), uint32(len(a.text))}
}

// reserve drops the bytes that no pair has, if they would make text grow by n
// bytes: a list that is changed for ever without Reset must not grow. The old text
// stays unchanged, because what is stored next may be part of it. The result tells
// whether n bytes may be stored.
func (a *Args) reserve(n int) bool {
	if len(a.text)+n <= cap(a.text) {
		return fits(len(a.text), n)
	}
	a.pairs = append(make([]pair, 0, cap(a.pairs)), a.pairs...) // copies by assignment keep the old ones, with the old text
	live := n
	for i := range a.pairs {
		live += int(a.pairs[i].key.end - a.pairs[i].key.start + a.pairs[i].room)
	}
	if live > len(a.text)/2 {
		return fits(len(a.text), n) // most are in use
	}
	a.compact(2 * live)
	return fits(len(a.text), n)
}

// compact gives a new text of size bytes, or more, that has only what pairs have.
func (a *Args) compact(size int) {
	old := a.text
	a.text = make([]byte, 0, size)
	for i := range a.pairs {
		p := &a.pairs[i]
		p.key, p.value = a.store(old[p.key.start:p.key.end]), a.store(old[p.value.start:p.value.end])
		p.room = p.value.end - p.value.start
	}
}

// own gives a list that was copied by assignment memory of its own, before a change.
func (a *Args) own() {
	if !a.owner.Owns() { // the first change
		a.claim()
	}
}

func (a *Args) claim() {
	if a.owner.IsCopy() {
		a.pairs, a.buf = slices.Clone(a.pairs), nil
		a.compact(len(a.text))
	}
}

// find returns the first pair with the given key, nil if there is none.
func (a *Args) find(key []byte) *pair {
	for i := range a.pairs {
		if p := &a.pairs[i]; string(a.text[p.key.start:p.key.end]) == string(key) {
			return p
		}
	}
	return nil
}

// Peek returns the first value of key: nil if there is none, empty but not nil
// if it has no value.
func (a *Args) Peek(key []byte) []byte {
	if p := a.find(key); p != nil {
		return orEmpty(a.at(p.value))
	}
	return nil
}

// PeekMulti returns all values of key in order, nil if there is none.
func (a *Args) PeekMulti(key []byte) [][]byte {
	var values [][]byte
	for i := range a.pairs {
		if p := &a.pairs[i]; bytes.Equal(a.at(p.key), key) {
			values = append(values, orEmpty(a.at(p.value)))
		}
	}
	return values
}

// Has reports whether there is a pair with the given key.
func (a *Args) Has(key []byte) bool { return a.find(key) != nil }
