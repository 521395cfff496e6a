package ascii

import "unsafe"

// String returns the bytes of b as a string without a copy. The string changes when b
// does, so it must not outlive the call for which it was made: do not use it as a map
// key or in an error, and do not store it.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Bytes returns the bytes of s without a copy. The result must not be changed. It is
// nil only if s is empty.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Address returns where p points to, for comparisons. It keeps nothing alive, and changes
// when a stack moves.
func Address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
