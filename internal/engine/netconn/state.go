package netconn

import "net"

// The flags of conn.state; the package comment has the rules. Without flagWaits, the
// connection's goroutine works on it, and there are no others.
const (
	flagWaits       uint32 = 1 << iota // it waits for input
	flagPartial                        // in the middle of a request
	flagFixed                          // DetachIdle must not take it
	flagEvicted                        // Shutdown closes it
	flagTaken                          // DetachIdle takes it
	flagInterrupted                    // DetachIdle has interrupted it, or is about to
	flagSaysGoodbye                    // its protocol SaysGoodbye
)

// claimed are the flags of connections that another goroutine owns after the wait.
const claimed = flagEvicted | flagTaken

// A phase is how far a connection has come. The order matters: conclude makes the calls
// of its phase and of those before.
type phase uint8

const (
	phaseEnded    phase = iota // no connection, or every call was made
	phaseFresh                 // the hook Departed must be called
	phaseAdmitted              // before that, Release
	phaseOpen                  // before that, Closed
	phaseLeaving               // the same, and it was prompted because of Shutdown
	phaseHanded                // the same, and DetachIdle gets the connection
	phaseDetached              // the same, and live must be called
	phaseLive                  // the same, and Protocol.Detached was called
)

// A timing says what deadlines do to reads of a net.Conn.
type timing uint8

const (
	timed   timing = iota // they end reads, as far as is known
	late                  // a read went on after its deadline
	untimed               // they cannot be set
)

// A kind says what the engine may do with a net.Conn. A serving or an adoption decides it.
type kind uint8

const (
	kindAny    kind = iota // read and write; or the goroutine is the caller's
	kindSocket             // a bare socket: it may also rest, and DetachIdle may take it
	kindFixed              // the same, but its protocol cannot be packed: DetachIdle must not take it
)

// kindOf returns the kind of nc, whose goroutine is the engine's.
func kindOf(nc net.Conn) kind {
	if isBare(nc) {
		return kindSocket
	}
	return kindAny
}

// setFixed keeps DetachIdle from the connection, for good.
func (c *conn) setFixed() {
	if c.kind == kindSocket {
		c.kind = kindFixed
	}
}

// An activity says how long a connection has waited. Input and prompts make it active; cool
// makes an active one inactive and an inactive one cold, after hotTime each; a cold one rests
// in its next wait, and is inactive afterwards. kindAny is never cold.
type activity uint8

const (
	inactive activity = iota // there was no input since hotUntil was set
	active                   // there was
	cold                     // it has no buffers, and rests as soon as it has no background reader
	resting                  // it waits in rest, on another goroutine
)

func (c *conn) setActive() { c.activity = active }

// idled is called after hotTime.
func (c *conn) idled() {
	if c.activity == active || c.kind == kindAny {
		c.activity = inactive
	} else {
		c.activity = cold
	}
}

// beginsRest reports whether the wait that begins is a rest.
func (c *conn) beginsRest() bool {
	if c.activity != cold || c.reader != nil {
		return false
	}
	c.activity = resting
	return true
}

func (c *conn) endRest() { c.activity = inactive }
