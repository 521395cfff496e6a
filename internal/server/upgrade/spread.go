package upgrade

import (
	"sync/atomic"
	"time"
)

// Spread returns a time below over for the connection with an index. The times of many
// connections are spread evenly.
func Spread(index uint32, over time.Duration) time.Duration {
	return time.Duration(index*2654435761>>22) * (over >> 10)
}

// Around returns a time that differs from d by a fifth at most, as Spread does.
func Around(index uint32, d time.Duration) time.Duration {
	return d - d/5 + Spread(index, 2*(d/5))
}

// A Restart is when connections end that cannot move, after another process has begun to
// replace this one. They end one by one, so that not all clients connect again at once. The
// zero value means that it has not begun.
type Restart struct{ begun atomic.Int64 }

// At returns when the connection with an index ends. The first call begins.
func (r *Restart) At(index uint32, over time.Duration, now int64) int64 {
	begun := r.begun.Load()
	if begun == 0 {
		r.begun.CompareAndSwap(0, now)
		begun = r.begun.Load()
	}
	return begun + int64(Spread(index, over))
}
