package uri

import (
	"bytes"
	"iter"
	"slices"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// Args is an ordered list of key=value pairs in the notation of
// application/x-www-form-urlencoded. Its zero value is empty. Slices that
// methods return stay valid until the list is changed; those that methods take
// are copied.
type Args struct {
	pairs []pair
	buf   []byte // result of QueryString
}

// pair keeps the memory of key and value when its slot in Args.pairs is used
// again.
type pair struct {
	key, value []byte
	hasNoValue bool // "key", not "key="
}

// Reset removes all pairs. It keeps the memory for the next use.
func (a *Args) Reset() { a.pairs = a.pairs[:0] }

// HeldBytes is the memory that a keeps for its next use.
func (a *Args) HeldBytes() int {
	const pairSize = 64
	n := cap(a.buf) + pairSize*cap(a.pairs)
	for _, p := range a.pairs[:cap(a.pairs)] {
		n += cap(p.key) + cap(p.value)
	}
	return n
}

// CopyTo makes dst a copy of a that shares no memory with it.
func (a *Args) CopyTo(dst *Args) {
	if a == dst {
		return
	}
	dst.Reset()
	for i := range a.pairs {
		p := &a.pairs[i]
		dst.Add(p.key, p.value, p.hasNoValue)
	}
}

// Len returns the number of pairs.
func (a *Args) Len() int { return len(a.pairs) }

// All yields the pairs in order; neither slice is nil. a may be changed during
// the iteration; pairs that are added are yielded, too.
func (a *Args) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for i := 0; i < len(a.pairs); i++ {
			if !yield(orEmpty(a.pairs[i].key), orEmpty(a.pairs[i].value)) {
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
// percent-encodings are kept verbatim, and pairs with neither key nor value are
// left out. b must not be part of a.
func (a *Args) Parse(b []byte) {
	a.Reset()
	for len(b) > 0 {
		var pair []byte
		pair, b, _ = ascii.Cut(b, '&')
		if key, value, found := ascii.Cut(pair, '='); len(key)+len(value) > 0 {
			a.addEncoded(key, value, !found)
		}
	}
}

func (a *Args) addEncoded(key, value []byte, hasNoValue bool) {
	p := a.grow()
	p.key = ascii.AppendUnescapedArg(p.key[:0], key)
	p.value = ascii.AppendUnescapedArg(p.value[:0], value)
	p.hasNoValue = hasNoValue
}

// grow appends a slot. Its slices hold data of an earlier use.
func (a *Args) grow() *pair {
	n := len(a.pairs)
	if n < cap(a.pairs) {
		a.pairs = a.pairs[:n+1]
	} else {
		a.pairs = append(a.pairs, pair{})
	}
	return &a.pairs[n]
}

// QueryString returns the encoded pairs. It is valid until the next call, or a
// change of a.
func (a *Args) QueryString() []byte {
	a.buf = a.AppendBytes(a.buf[:0])
	return a.buf
}

// AppendBytes appends the encoded pairs to dst.
func (a *Args) AppendBytes(dst []byte) []byte {
	for i := range a.pairs {
		if i > 0 {
			dst = append(dst, '&')
		}
		p := &a.pairs[i]
		dst = ascii.AppendArg(dst, p.key)
		if !p.hasNoValue {
			dst = append(dst, '=')
			dst = ascii.AppendArg(dst, p.value)
		}
	}
	return dst
}

// Sort orders the pairs by key, and pairs with the same key by value. Equal
// pairs keep their order.
func (a *Args) Sort(compare func(x, y []byte) int) {
	slices.SortStableFunc(a.pairs, func(x, y pair) int {
		if order := compare(x.key, y.key); order != 0 {
			return order
		}
		return compare(x.value, y.value)
	})
}

// SortKeys orders the pairs by key. Pairs with the same key keep their order.
func (a *Args) SortKeys(compare func(x, y []byte) int) {
	slices.SortStableFunc(a.pairs, func(x, y pair) int { return compare(x.key, y.key) })
}

// Del removes all pairs with the given key.
func (a *Args) Del(key []byte) {
	kept := 0
	for i := range a.pairs {
		if bytes.Equal(a.pairs[i].key, key) {
			continue
		}
		// Swapped, not overwritten: two slots must never share memory.
		a.pairs[kept], a.pairs[i] = a.pairs[i], a.pairs[kept]
		kept++
	}
	a.pairs = a.pairs[:kept]
}

// Add appends a pair, even if there is one with the same key.
func (a *Args) Add(key, value []byte, hasNoValue bool) {
	p := a.grow()
	p.key = append(p.key[:0], key...)
	p.value = append(p.value[:0], value...)
	p.hasNoValue = hasNoValue
}

// Set sets the value of the first pair with the given key, or appends a pair if
// there is none. Other pairs with the key stay.
func (a *Args) Set(key, value []byte, hasNoValue bool) {
	p := a.find(key)
	if p == nil {
		a.Add(key, value, hasNoValue)
		return
	}
	p.value = append(p.value[:0], value...)
	p.hasNoValue = hasNoValue
}

// find returns the first pair with the given key, nil if there is none.
func (a *Args) find(key []byte) *pair {
	for i := range a.pairs {
		if bytes.Equal(a.pairs[i].key, key) {
			return &a.pairs[i]
		}
	}
	return nil
}

// Peek returns the first value of key: nil if there is none, empty but not nil
// if it has no value.
func (a *Args) Peek(key []byte) []byte {
	if p := a.find(key); p != nil {
		return orEmpty(p.value)
	}
	return nil
}

// PeekMulti returns all values of key in order, nil if there is none.
func (a *Args) PeekMulti(key []byte) [][]byte {
	var values [][]byte
	for i := range a.pairs {
		if bytes.Equal(a.pairs[i].key, key) {
			values = append(values, orEmpty(a.pairs[i].value))
		}
	}
	return values
}

// Has tells whether there is a pair with the given key.
func (a *Args) Has(key []byte) bool { return a.find(key) != nil }
