package nettest

import "time"

// Poll calls isSo again and again until it returns true, or until the limit has passed,
// and reports which. Its pauses are an eighth of the time that it has waited, and 20 ms at
// most: what takes long is not made slower by those who ask for it.
func Poll(limit time.Duration, isSo func() bool) bool {
	for began := time.Now(); !isSo(); {
		waited := time.Since(began)
		if waited > limit {
			return false
		}
		time.Sleep(min(max(waited/8, 200*time.Microsecond), 20*time.Millisecond))
	}
	return true
}
