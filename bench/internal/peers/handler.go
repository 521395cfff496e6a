package peers

import (
	"crypto/sha256"
	"time"
)

// Targets of a mixed handler. It answers any other at once.
const (
	CPUTarget     = "/cpu"   // computes for Handler.Spins
	SleepTarget   = "/sleep" // sleeps for Handler.Sleep
	InstantTarget = "/instant"
)

// A Handler says what a request costs the handler before it answers Body. The
// zero value answers at once.
type Handler struct {
	Sleep time.Duration // of every request, or of those for SleepTarget if Mixed
	Mixed bool          // the request's target decides
	Spins int           // of requests for CPUTarget, see Spin
}

// work returns what the handler does with a request's target before it answers;
// nil if that is nothing.
func (h Handler) work() func(target []byte) {
	switch {
	case h.Mixed:
		return func(target []byte) {
			switch string(target) {
			case CPUTarget:
				Spin(h.Spins)
			case SleepTarget:
				time.Sleep(h.Sleep)
			}
		}
	case h.Sleep > 0:
		return func([]byte) { time.Sleep(h.Sleep) }
	}
	return nil
}

// Spin computes: it hashes a block n times over. A number of times is the same
// work for every server, where a length of time would be less work on a busy
// machine.
func Spin(n int) byte {
	var sum [sha256.Size]byte
	for range n {
		sum = sha256.Sum256(sum[:])
	}
	return sum[0] // used, so that the compiler keeps the loop
}
