package buf

import "sync/atomic"

// DefaultLimit is what the zero Limit allows, in bytes. A larger body is so rare, or takes
// so long, that its allocation does not matter; if its memory were retained, every message
// in use would hold some.
const DefaultLimit = 256 << 10

// A Limit says how much memory an object retains for its next use. The zero value is
// DefaultLimit. It may be changed at any time.
type Limit struct {
	stored atomic.Int64 // 0: DefaultLimit; -1: none; otherwise the limit plus 1
}

// Set sets the limit to n bytes; negative: no limit.
func (l *Limit) Set(n int) {
	if n < 0 {
		n = -2
	}
	l.stored.Store(int64(n) + 1)
}

// Allows reports whether n bytes are within the limit.
func (l *Limit) Allows(n int) bool {
	switch most := l.stored.Load(); {
	case most < 0:
		return true
	case most == 0:
		return n <= DefaultLimit
	default:
		return int64(n) < most
	}
}
