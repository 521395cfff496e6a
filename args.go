package sluice

import (
	"io"
	"iter"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// Args is an ordered list of key=value pairs in the notation of
// application/x-www-form-urlencoded: a query string or the body of a form. Keys
// may repeat. A pair may have no value, which differs from an empty value ("a"
// and "a=").
//
// The zero value is an empty list, ready to use. It owns the slices that its methods
// return; see the package comment. Copies by assignment share memory until they change:
// use CopyTo. Keys and values may hold any bytes: Args percent-encodes them when written.
type Args struct {
	owned invariants.Pooled
	m     uri.Args
}

// Reset removes all pairs. It keeps the memory for the next use.
func (a *Args) Reset() { a.m.Reset() }

// CopyTo makes dst a copy of a that shares no memory with it.
func (a *Args) CopyTo(dst *Args) { a.m.CopyTo(&dst.m) }

// Len returns the number of pairs.
func (a *Args) Len() int { return a.m.Len() }

// All yields the pairs in order. The slices stay valid until a is changed. a
// may be changed during the iteration; pairs that are added are yielded, too.
func (a *Args) All() iter.Seq2[[]byte, []byte] { return a.m.All() }

// VisitAll calls f with each pair in order. f must not retain the slices.
func (a *Args) VisitAll(f func(key, value []byte)) { a.All()(visitor(f)) }

// visitor adapts a function that cannot stop to an iterator's yield.
func visitor(f func(key, value []byte)) func([]byte, []byte) bool {
	return func(key, value []byte) bool {
		f(key, value)
		return true
	}
}

// Parse replaces the pairs with those of s, decoded. It never fails: malformed
// percent-encodings are kept verbatim. Pairs with neither key nor value are left
// out, and so are those after the first 65,536.
func (a *Args) Parse(s string) { a.m.Parse(ascii.Bytes(s)) }

// ParseBytes is Parse for bytes. It does not retain b, which must not be part
// of a.
func (a *Args) ParseBytes(b []byte) { a.m.Parse(b) }

// String returns the encoded pairs.
func (a *Args) String() string { return string(a.QueryString()) }

// QueryString returns the encoded pairs. The result is valid until the next
// call of QueryString, String or WriteTo, or a change of a.
func (a *Args) QueryString() []byte { return a.m.QueryString() }

// AppendBytes appends the encoded pairs to dst.
func (a *Args) AppendBytes(dst []byte) []byte { return a.m.AppendBytes(dst) }

// WriteTo writes the encoded pairs to w in one call. It implements
// io.WriterTo.
func (a *Args) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(a.QueryString())
	return int64(n), err
}

// Sort orders the pairs by key, and pairs with the same key by value. compare
// must be a strict weak ordering, for example bytes.Compare. Equal pairs keep
// their order.
func (a *Args) Sort(compare func(x, y []byte) int) { a.m.Sort(compare) }

// SortKeys orders the pairs by key. Pairs with the same key keep their order.
// compare must be a strict weak ordering.
func (a *Args) SortKeys(compare func(x, y []byte) int) { a.m.SortKeys(compare) }

// Del removes all pairs with the given key.
func (a *Args) Del(key string) { a.m.Del(ascii.Bytes(key)) }

// DelBytes is Del for bytes.
func (a *Args) DelBytes(key []byte) { a.m.Del(key) }

// Add appends a pair, even if there is one with the same key.
func (a *Args) Add(key, value string) { a.m.Add(ascii.Bytes(key), ascii.Bytes(value), false) }

// AddBytesK is Add with a key of bytes.
func (a *Args) AddBytesK(key []byte, value string) { a.m.Add(key, ascii.Bytes(value), false) }

// AddBytesV is Add with a value of bytes.
func (a *Args) AddBytesV(key string, value []byte) { a.m.Add(ascii.Bytes(key), value, false) }

// AddBytesKV is Add with key and value of bytes.
func (a *Args) AddBytesKV(key, value []byte) { a.m.Add(key, value, false) }

// AddNoValue appends a pair without value, written as "key", not "key=".
func (a *Args) AddNoValue(key string) { a.m.Add(ascii.Bytes(key), nil, true) }

// AddBytesKNoValue is AddNoValue for bytes.
func (a *Args) AddBytesKNoValue(key []byte) { a.m.Add(key, nil, true) }

// Set sets the value of the first pair with the given key, or appends a pair if
// there is none. Other pairs with the key stay.
func (a *Args) Set(key, value string) { a.m.Set(ascii.Bytes(key), ascii.Bytes(value), false) }

// SetBytesK is Set with a key of bytes.
func (a *Args) SetBytesK(key []byte, value string) { a.m.Set(key, ascii.Bytes(value), false) }

// SetBytesV is Set with a value of bytes.
func (a *Args) SetBytesV(key string, value []byte) { a.m.Set(ascii.Bytes(key), value, false) }

// SetBytesKV is Set with key and value of bytes.
func (a *Args) SetBytesKV(key, value []byte) { a.m.Set(key, value, false) }

// SetNoValue is Set for a pair without value, written as "key", not "key=".
func (a *Args) SetNoValue(key string) { a.m.Set(ascii.Bytes(key), nil, true) }

// SetBytesKNoValue is SetNoValue for bytes.
func (a *Args) SetBytesKNoValue(key []byte) { a.m.Set(key, nil, true) }

// SetUint is Set with a decimal value. It panics if value is negative.
func (a *Args) SetUint(key string, value int) { a.SetUintBytes(ascii.Bytes(key), value) }

// SetUintBytes is SetUint with a key of bytes.
func (a *Args) SetUintBytes(key []byte, value int) {
	var digits [20]byte
	a.m.Set(key, AppendUint(digits[:0], value), false)
}

// Peek returns the first value of key: nil if there is none, empty but not nil
// if it has no value.
func (a *Args) Peek(key string) []byte { return a.m.Peek(ascii.Bytes(key)) }

// PeekBytes is Peek for bytes.
func (a *Args) PeekBytes(key []byte) []byte { return a.m.Peek(key) }

// PeekMulti returns all values of key in order, nil if there is none.
func (a *Args) PeekMulti(key string) [][]byte { return a.m.PeekMulti(ascii.Bytes(key)) }

// PeekMultiBytes is PeekMulti for bytes.
func (a *Args) PeekMultiBytes(key []byte) [][]byte { return a.m.PeekMulti(key) }

// Has reports whether there is a pair with the given key.
func (a *Args) Has(key string) bool { return a.m.Has(ascii.Bytes(key)) }

// HasBytes is Has for bytes.
func (a *Args) HasBytes(key []byte) bool { return a.m.Has(key) }

// GetUint returns the first value of key as a number. The error is
// ErrNoArgValue if the value is absent or empty, and otherwise that of
// ParseUint. With an error the number is -1.
func (a *Args) GetUint(key string) (int, error) {
	value := a.Peek(key)
	if len(value) == 0 {
		return -1, ErrNoArgValue
	}
	return ParseUint(value)
}

// GetUintOrZero is GetUint, but returns 0 if there is an error.
func (a *Args) GetUintOrZero(key string) int {
	n, _ := a.GetUint(key)
	return max(n, 0)
}

// GetUfloat returns the first value of key as a number. The error is
// ErrNoArgValue if the value is absent or empty, and otherwise that of
// ParseUfloat. With an error the number is -1.
func (a *Args) GetUfloat(key string) (float64, error) {
	value := a.Peek(key)
	if len(value) == 0 {
		return -1, ErrNoArgValue
	}
	return ParseUfloat(value)
}

// GetUfloatOrZero is GetUfloat, but returns 0 if there is an error.
func (a *Args) GetUfloatOrZero(key string) float64 {
	f, _ := a.GetUfloat(key)
	return max(f, 0)
}

// GetBool reports whether the first value of key is one of 1, t, T, true, TRUE,
// True, y, Y, yes, YES, Yes.
func (a *Args) GetBool(key string) bool {
	switch string(a.Peek(key)) {
	case "1", "t", "T", "true", "TRUE", "True", "y", "Y", "yes", "YES", "Yes":
		return true
	}
	return false
}
