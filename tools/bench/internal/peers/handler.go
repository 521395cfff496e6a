package peers

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// Target is what clients ask for where nothing depends on it.
const Target = "/articles" + Query

// Query is at the end of every target: handlers read it.
const Query = "?page=2"

// isGood is what a handler looks at before it answers, as a user's does: the path,
// a header field, and an argument of the query. It answers what is not good with
// 400.
func isGood[Text string | []byte](path, agent, page Text) bool {
	return len(path) > 0 && path[0] == '/' && len(agent) > 0 && string(page) == "2"
}

// Paths of a mixed handler. It answers any other at once.
const (
	CPUPath     = "/cpu"   // computes for Handler.Spins
	SleepPath   = "/sleep" // sleeps for Handler.Sleep
	InstantPath = "/instant"
	LargePath   = "/large" // answers LargeSize bytes
	HugePath    = "/huge"  // answers HugeSize zeros
	FreshPath   = "/fresh" // answers FreshSize bytes that no other answer shares
)

// A Handler says what a request costs the handler before it answers Body. The
// zero value answers at once.
type Handler struct {
	Sleep time.Duration // of every request, or of those for SleepPath if Mixed
	Mixed bool          // the request's path decides
	Spins int           // of requests for CPUPath, see Spin
}

// work returns what the handler does with a request's path before it answers;
// nil if that is nothing.
func (h Handler) work() func(path []byte) {
	switch {
	case h.Mixed:
		return func(path []byte) {
			switch string(path) {
			case CPUPath:
				Spin(h.Spins)
			case SleepPath:
				time.Sleep(h.Sleep)
			}
		}
	case h.Sleep > 0:
		return func([]byte) { time.Sleep(h.Sleep) }
	}
	return nil
}

// contents returns what answers a path of a mixed handler; it returns nil for those that get
// Body.
func (h Handler) contents() func(path []byte) []byte {
	if !h.Mixed {
		return func([]byte) []byte { return nil }
	}
	large, huge := Large(), make([]byte, HugeSize)
	return func(path []byte) []byte {
		switch string(path) {
		case LargePath:
			return large
		case HugePath:
			return huge
		case FreshPath:
			return bytes.Repeat([]byte{'x'}, FreshSize)
		}
		return nil
	}
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
