package netconn

// The flags of conn.state; the package comment has the rules. Without flagWaits, the
// connection's goroutine works on it, and there are no others.
const (
	flagWaits   uint32 = 1 << iota // it waits for input
	flagPartial                    // in the middle of a request
	flagFixed                      // DetachIdle must not take it
	flagEvicted                    // Shutdown closes it
	flagTaken                      // DetachIdle takes it
	flagPoked                      // DetachIdle has interrupted it, or is about to
	flagPolite                     // its protocol SaysGoodbye
)

// claimed are the flags of connections that belong to somebody else after the wait.
const claimed = flagEvicted | flagTaken

// A phase is how far a connection has come. The order matters: conclude makes the calls
// of its phase and of those before.
type phase uint8

const (
	phaseEnded    phase = iota // no connection, or every call was made
	phaseFresh                 // the hook Departed must be called
	phaseAdmitted              // before that, Release
	phaseOpen                  // before that, Closed
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
