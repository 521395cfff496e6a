package engine

import (
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = time.Second
)

// A Backoff tells how long to wait after a failed Accept. The zero value is
// ready.
type Backoff struct {
	last time.Duration
}

// Next returns how long to wait before the next try: 5 ms at first, then twice the
// last result, up to a second.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, firstBackoff), lastBackoff)
	return b.last
}

// Reset notes that an Accept succeeded.
func (b *Backoff) Reset() { b.last = 0 }

// IsTemporary reports whether a retry of Accept may succeed after err: the process
// or the system is out of a resource, or the peer gave up before the accept.
func IsTemporary(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	for _, errno := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, syscall.EPERM,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	// Temporary is deprecated because it is ill-defined, but listeners of other
	// packages still use it.
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}
