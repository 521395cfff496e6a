package ascii

import "unsafe"

// String returns the bytes of b as a string without copying them. The string
// changes when b does, so it must not outlive the call it was made for: no map
// key, no error text, nothing stored.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Bytes returns the bytes of s without copying them. Nobody may write to the
// result. It is nil only when s is empty.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
