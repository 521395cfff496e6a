package engine

import (
	"runtime"
	"sync/atomic"
	"syscall"
)

// A Holder sends for clients: it copies what they send to servers, and sends it together with
// the output of its connections, as soon as no handler is running. Engines implement it.
type Holder interface {
	// Hold takes a copy of out, which is not empty, for the socket of h. It returns false if
	// the caller must send it. It never waits. When it has returned true, h ends soon; until
	// then, or until h.Recall has returned, the caller must not close the socket.
	Hold(h *Held, out []byte) bool
}

// A Held is a socket with bytes that a Holder has. The zero value has none. A caller may use
// it again after State has returned HeldSent.
type Held struct {
	FD int
	// Wake is called when h ends otherwise than by HeldSent: the caller may be waiting for
	// the answer. It must not block.
	Wake func()
	// With HeldCut, N is how many bytes were sent, and Errno why the rest was not; 0: there
	// is no room for it, or the Holder cannot tell.
	N     int
	Errno syscall.Errno

	state atomic.Uint32 // HeldState
}

// A HeldState says what has become of the bytes of a Held.
type HeldState uint32

const (
	HeldNot      HeldState = iota // they were never held, or Recall has succeeded
	HeldWaits                     // nothing was sent yet
	heldSending                   // they are being sent
	HeldSent                      // all were sent
	HeldCut                       // the first N were sent
	HeldNotQuiet                  // none: the socket is closed, or had unread bytes
)

// State returns what has become of the bytes. While they are being sent, by one system call
// that does not wait for the peer, it waits.
func (h *Held) State() HeldState {
	for {
		if s := HeldState(h.state.Load()); s != heldSending {
			return s
		}
		runtime.Gosched()
	}
}

// Recall ends a Held that waits. It returns the last state: HeldNot if nothing was sent, and
// nothing will be.
func (h *Held) Recall() HeldState {
	if h.state.CompareAndSwap(uint32(HeldWaits), uint32(HeldNot)) {
		return HeldNot
	}
	return h.State()
}

// Wait is called by a Holder that has taken the bytes.
func (h *Held) Wait() { h.state.Store(uint32(HeldWaits)) }

// Begin is called by the Holder before it sends. It returns false after Recall.
func (h *Held) Begin() bool {
	return h.state.CompareAndSwap(uint32(HeldWaits), uint32(heldSending))
}

// End is called by the Holder after Begin, at last.
func (h *Held) End(state HeldState, n int, errno syscall.Errno) {
	if state != HeldSent {
		h.N, h.Errno = n, errno
		h.Wake()
	}
	h.state.Store(uint32(state))
}
