package engine

import (
	"container/list"
	"errors"
	"sync"
)

// ErrTooManyHandshakes is the error of a handshake that the limit has ended.
var ErrTooManyHandshakes = errors.New("sluice: the TLS handshake was ended because too many have begun after it")

// Handshakes are the TLS handshakes of an engine that have begun. Each has a goroutine and
// the state of crypto/tls, and its peer decides how long it takes. So their number is limited,
// and one more ends the oldest: honest peers need a round trip or two.
type Handshakes struct {
	Limit int // at least 1; set before the first Begin

	mu      sync.Mutex
	open    list.List // of *handshake, oldest first
	dropped uint64    // by the limit
}

// A handshake is one that has begun.
type handshake struct {
	end       func()
	isDropped bool // by the limit
}

// Begin counts a handshake until over is called. At the limit it calls the end of the oldest
// one, which must make that fail soon, without waiting. over returns ErrTooManyHandshakes if
// the handshake's own end was called, or will be: then it has failed, whatever its peer says.
func (h *Handshakes) Begin(end func()) (over func() error) {
	h.mu.Lock()
	var endOldest func()
	if h.open.Len() >= h.Limit {
		oldest := h.open.Remove(h.open.Front()).(*handshake)
		oldest.isDropped, endOldest = true, oldest.end
		h.dropped++
	}
	one := &handshake{end: end}
	e := h.open.PushBack(one)
	h.mu.Unlock()
	if endOldest != nil {
		endOldest() // without the lock, for which others would wait
	}
	return func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open.Remove(e)
		if one.isDropped {
			return ErrTooManyHandshakes
		}
		return nil
	}
}

// Count returns how many handshakes have begun and are not over, and how many the limit has
// ended.
func (h *Handshakes) Count() (open int, dropped uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open.Len(), h.dropped
}
