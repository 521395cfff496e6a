//go:build linux && (amd64 || arm64)

package epoll

import (
	"runtime"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A slot is a connection that waits: 64 bytes, one cache line, and no pointers,
// so that the garbage collector never looks at a million of them.
//
// The word is a generation in the upper half, and the state with its flags in
// the lower. A generation is one connection's for the life of the engine: an
// event, a deadline or a prompt that comes late finds another one and is
// dropped. All other fields belong to whoever has claimed the connection,
// except for expiry, which the sweep reads.
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

// The state. Who moves it from idle to busy has claimed the connection: the
// claimant queues it, a worker serves it and moves it back to idle, or to
// closed.
const (
	stateClosed uint64 = iota // no connection
	stateIdle                 // nobody's: waiting for an event
	stateBusy                 // a worker's, or on its way to one
	stateMask   uint64 = 3
)

// The flags.
const (
	flagPartial    uint64 = 1 << (2 + iota) // waiting in the middle of something
	flagBlocked                             // waiting for room to write
	flagAdded                               // epoll knows the descriptor
	flagInput                               // while busy: there may be more input
	flagOutput                              // while busy: there may be room to write
	flagGone                                // the peer sends no more; for good
	flagReadWait                            // a goroutine waits for input
	flagWriteWait                           // a goroutine waits for room
	flagWatch                               // the peer's going is to be told
	flagHandshake                           // TLS: before the end of the handshake
	flagFresh                               // nobody has looked at the connection yet
	flagExpired                             // claimed because of a deadline
	flagPrompt                              // Protocol.Prompted is to be called
	flagTake                                // DetachIdle wants it
	flagEvict                               // Shutdown wants it, if it is idle
	flagKill                                // it must end
	flagHeld                                // the descriptor must not be closed now
	flagTLS                                 // it is a TLS connection; for good
	flagFixed                               // waiting, and DetachIdle cannot have it
	flagSwitched                            // it has another Protocol than it began with; for good
	flagPromptOnly                          // claimed by a prompt alone: there was no input
)

// errands are the flags that tell the owner to do more than to read.
const errands = flagFresh | flagExpired | flagPrompt | flagTake | flagEvict | flagKill | flagPromptOnly

const generationShift = 32

func generation(word uint64) uint32 { return uint32(word >> generationShift) }

// is tells whether word is that of an open connection of generation gen.
func is(word uint64, gen uint32) bool {
	return generation(word) == gen && word&stateMask != stateClosed
}

// deliver adds flags to the connection of generation gen. If nobody has it,
// then deliver claims it: the caller must queue it. Else woken names the waits
// that it has ended, whose goroutines the caller must signal; flagWatch among
// them says that the peer's going is news.
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
			// Whoever claims reads and writes anyway: that there is input and
			// room need not be noted.
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

// ignores tells whether a connection that waits does not care for flags: room
// when it has nothing to write, or input when it waits for room, for it will
// read when it has got that.
func ignores(word, flags uint64) bool {
	if word&flagBlocked != 0 {
		return flags == flagInput
	}
	return flags == flagOutput
}

// wakes returns the waits of a busy connection that flags end.
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

// claim claims a connection that waits, with flags. One that has any of unless is
// left alone.
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

// release gives a busy connection back, with the flags parked that say how it
// waits. False: something has come up that the owner must see to first.
func (s *slot) release(parked uint64) bool {
	hinders := flagInput | flagPrompt | flagKill
	if parked&flagBlocked != 0 {
		// Input and prompts wait until there is room. A peer that has gone may
		// still be reading; if not, it takes the output away, which is an event
		// too.
		hinders = flagOutput | flagKill
		if parked&flagPartial == 0 {
			panic("sluice: connection with output released as idle")
		}
	}
	for {
		word := s.word.Load()
		if word&hinders != 0 {
			return false
		}
		next := word &^ (stateMask | flagInput | flagOutput | flagPartial | flagBlocked | flagFixed)
		if s.word.CompareAndSwap(word, next|stateIdle|parked) {
			return true
		}
	}
}

// hold keeps the connection that word was loaded of from being closed. Release
// it soon with drop.
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

// open makes the slot that of a new connection, which is the caller's.
func (s *slot) open(gen uint32, flags uint64) {
	s.expiry.Store(0)
	s.writeTimeout = 0
	s.memo = engine.Memo{}
	s.word.Store(uint64(gen)<<generationShift | stateBusy | flags)
}

// close ends the connection. Its descriptor is the caller's to close.
func (s *slot) close() {
	for {
		word := s.word.Load()
		if word&flagHeld != 0 {
			runtime.Gosched()
			continue
		}
		//lint:ignore SA4016 stateClosed is 0, and is named all the same
		if s.word.CompareAndSwap(word, word>>generationShift<<generationShift|stateClosed) {
			return
		}
	}
}
