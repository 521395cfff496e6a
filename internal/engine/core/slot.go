//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A slot holds what the engine knows of a waiting connection. It is 64 bytes, one
// cache line, and contains no pointers, so that the garbage collector need not
// scan a million of them.
//
// The upper half of word is a generation; the lower half is the state with its
// flags, and the index of the connection's loop. The engine gives each connection a new generation, so a late event,
// deadline or prompt does not match and is dropped. The goroutine that has claimed
// the connection owns all other fields; the sweep also reads expiry.
type slot struct {
	word         atomic.Uint64
	memo         engine.Memo
	ip           [16]byte
	expiry       atomic.Uint32 // of the wait, in ticks; 0: none
	writeTimeout uint32        // milliseconds; 0: none
	scope        uint32        // of an IPv6 address
	port         uint16
	serving      uint16 // index of the serving, whose acceptor it has
}

// The state. A goroutine claims a connection by changing it from idle to busy, and
// queues it. A worker then serves it, and changes the state back to idle, or to
// closed.
const (
	stateClosed uint64 = iota // no connection
	stateIdle                 // waiting for an event; no owner
	stateBusy                 // owned by a worker, or queued for one
	stateMask   uint64 = 3
)

// The flags.
const (
	flagPartial    uint64 = 1 << (2 + iota) // waiting in the middle of a request or of output
	flagBlocked                             // waiting for room to write
	flagAdded                               // the loop's poller has the descriptor
	flagInput                               // while busy: there may be more input
	flagOutput                              // while busy: there may be room to write
	flagGone                                // the peer sends no more; never cleared
	flagReadWait                            // a goroutine waits for input
	flagWriteWait                           // a goroutine waits for room
	flagWatch                               // OnPeerGone may want to know when the peer is gone: it did in a Run of the connection; never cleared
	flagHandshake                           // before the end of a proxy's header or of the handshake of TLS; without a conn, it waits for the header, if it is flagFresh, or the ClientHello
	flagFresh                               // the connection is not admitted: no worker has served it yet, or it waits for a proxy's header
	flagExpired                             // claimed because of a deadline
	flagPrompt                              // the worker must call Prompted
	flagTake                                // DetachIdle wants it
	flagEvict                               // Shutdown ends it, if it is idle
	flagKill                                // it must end
	flagHeld                                // the descriptor must not be closed now
	flagTLS                                 // it is a TLS connection; never cleared
	flagFixed                               // waiting, and DetachIdle must not take it
	flagStays                               // DetachIdle must not take it: crypto/tls has it, or a later Protocol that cannot be packed
	flagPromptOnly                          // claimed by a prompt alone: there was no input
	flagQuick                               // its Protocol NeverBlocks
	flagDuplex                              // waiting for room; input claims it, too
)

// flagReceives is flagDuplex of a connection that waits between requests: its Protocol, which
// may be asleep, is a Receiver.
const flagReceives = flagDuplex

// reasonFlags are the flags that ask the owner for more than reading.
const reasonFlags = flagFresh | flagExpired | flagPrompt | flagTake | flagEvict | flagKill | flagPromptOnly

// The loop of a connection is the rest of the lower half.
const (
	loopShift = 25
	loopMask  = (maxLoops - 1) << loopShift
	maxLoops  = 1 << (generationShift - loopShift)
)

func loopIndex(word uint64) int { return int(word & loopMask >> loopShift) }

const generationShift = 32

func generation(word uint64) uint32 { return uint32(word >> generationShift) }

// is reports whether word belongs to an open connection of generation gen.
func is(word uint64, gen uint32) bool {
	return generation(word) == gen && word&stateMask != stateClosed
}

// deliver adds flags to the connection of generation gen. If the connection is
// idle, deliver claims it, and the caller must queue it. Otherwise woken has the
// waits that deliver has ended; the caller must signal their goroutines. flagWatch
// in woken means that the peer is gone and that its notice must be fired.
func (s *slot) deliver(gen uint32, flags uint64) (claimed bool, woken uint64) {
	for {
		word := s.word.Load()
		if !is(word, gen) {
			return false, 0
		}
		if word&stateMask == stateIdle {
			if ignores(word, flags) {
				return false, 0
			}
			// The worker reads and writes in any case, so the flags for input and
			// room are not needed.
			kept := flags &^ (flagInput | flagOutput)
			if flags == flagPrompt && word&flagBlocked == 0 {
				kept |= flagPromptOnly
			}
			if s.word.CompareAndSwap(word, word&^stateMask|stateBusy|kept) {
				return true, 0
			}
			continue
		}
		woken = wakes(word, flags)
		next := (word | flags) &^ (woken &^ flagWatch)
		if next == word || s.word.CompareAndSwap(word, next) {
			return false, woken
		}
	}
}

// deliverInput is deliver for what most events tell, in fewer instructions: input for a connection
// that waits for it. If it returns false, nothing is delivered.
func (s *slot) deliverInput(gen uint32, flags uint64) (claimed bool) {
	word := s.word.Load()
	return flags|flagOutput == flagInput|flagOutput && word&(stateMask|flagBlocked) == stateIdle && generation(word) == gen &&
		s.word.CompareAndSwap(word, word&^stateMask|stateBusy)
}

// ignores reports whether a waiting connection ignores flags: room when it has
// nothing to write, or input when it waits for room. In the second case it reads
// after it has written, unless it is duplex.
func ignores(word, flags uint64) bool {
	if word&flagBlocked != 0 {
		return flags == flagInput && word&flagDuplex == 0
	}
	return flags == flagOutput
}

// wakes returns the waits of a busy connection that end because of flags.
func wakes(word, flags uint64) (woken uint64) {
	if flags&(flagInput|flagGone|flagKill) != 0 {
		woken |= word & flagReadWait
	}
	if flags&(flagOutput|flagGone|flagKill) != 0 {
		woken |= word & flagWriteWait
	}
	if flags&flagGone != 0 && word&flagGone == 0 {
		woken |= word & flagWatch
	}
	return woken
}

// claim claims a waiting connection and sets flags. It does not claim one that has
// any of the flags in unless.
func (s *slot) claim(flags, unless uint64) bool {
	for {
		word := s.word.Load()
		if word&stateMask != stateIdle || word&unless != 0 {
			return false
		}
		if s.word.CompareAndSwap(word, word&^stateMask|stateBusy|flags) {
			return true
		}
	}
}

// claimIdle claims a connection that is between requests.
func (s *slot) claimIdle(flags uint64) bool { return s.claim(flags, flagPartial) }

// claimFor is claim for the connection of generation gen.
func (s *slot) claimFor(gen uint32, unless uint64) bool {
	for {
		word := s.word.Load()
		if !is(word, gen) || word&stateMask != stateIdle || word&unless != 0 {
			return false
		}
		if s.word.CompareAndSwap(word, word&^stateMask|stateBusy) {
			return true
		}
	}
}

// assign sets flags, or clears them. Called by the owner.
func (s *slot) assign(flags uint64, isSet bool) {
	if isSet {
		s.set(flags)
	} else {
		s.take(flags)
	}
}

// has tells which of flags are set. Called by the owner.
func (s *slot) has(flags uint64) bool { return s.word.Load()&flags != 0 }

// take clears flags and returns those that were set. Called by the owner.
func (s *slot) take(flags uint64) uint64 {
	if s.word.Load()&flags == 0 {
		return 0
	}
	return s.word.And(^flags) & flags
}

// set sets flags. Called by the owner.
func (s *slot) set(flags uint64) { s.word.Or(flags) }

// release makes a busy connection idle. The flags in parked say how it waits. It
// returns false if an event arrived that the owner must handle first.
func (s *slot) release(parked uint64) bool {
	hinders := flagInput | flagPrompt | flagKill
	if parked&flagBlocked != 0 {
		// Input and prompts wait until there is room. flagGone does not matter: the
		// peer may still read, and if it does not, the write fails with an event.
		hinders = flagOutput | flagKill
		if parked&flagDuplex != 0 {
			hinders |= flagInput
		}
		if parked&flagPartial == 0 {
			panic("sluice: connection with output released as idle")
		}
	}
	for {
		word := s.word.Load()
		if word&hinders != 0 {
			return false
		}
		next := word &^ (stateMask | flagInput | flagOutput | flagPartial | flagBlocked | flagFixed | flagDuplex)
		if s.word.CompareAndSwap(word, next|stateIdle|parked) {
			return true
		}
	}
}

// hold prevents the connection of generation gen from being closed until drop,
// which must follow soon. It returns false if the connection has ended.
func (s *slot) hold(gen uint32) bool {
	for {
		word := s.word.Load()
		if !is(word, gen) {
			return false
		}
		if word&flagHeld != 0 {
			runtime.Gosched()
			continue
		}
		if s.word.CompareAndSwap(word, word|flagHeld) {
			return true
		}
	}
}

func (s *slot) drop() { s.word.And(^flagHeld) }

// open initialises the slot for a new connection of the loop at index loop, which the
// caller owns.
func (s *slot) open(gen uint32, loop int, flags uint64) {
	s.expiry.Store(0)
	s.writeTimeout = 0
	s.memo = engine.Memo{}
	s.word.Store(uint64(gen)<<generationShift | uint64(loop)<<loopShift | stateBusy | flags)
}

// close marks the slot as closed. The caller closes the descriptor afterwards.
func (s *slot) close() {
	for {
		word := s.word.Load()
		if word&flagHeld != 0 {
			runtime.Gosched()
			continue
		}
		if s.word.CompareAndSwap(word, word>>generationShift<<generationShift|stateClosed) { //nolint:staticcheck // stateClosed is 0; its name says what is stored
			return
		}
	}
}
