// Package clock reads time cheaply: a monotonic counter for deadlines, and the text
// of the Date field, which is made once a second. There is no ticking goroutine: the
// first caller after a second makes the new text. Bounds say when a call ends.
package clock

import (
	"sync/atomic"
	"time"
)

// base is the origin of Nanos.
var base = time.Now()

// Nanos returns a monotonic time in nanoseconds since the process began. It costs
// half of time.Now, which reads two clocks.
func Nanos() int64 { return int64(time.Since(base)) }

// Deadline converts a result of Nanos to a time for SetDeadline methods.
func Deadline(nanos int64) time.Time { return base.Add(time.Duration(nanos)) }

// DeadlineOrNone is Deadline, and for 0 the zero time: there is no deadline.
func DeadlineOrNone(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return Deadline(nanos)
}

// stamp holds a wall time and its texts.
type stamp struct {
	nanos int64 // Nanos at wall
	until int64 // Nanos at which wall's second ends
	wall  time.Time
	date  [len(dateLayout)]byte
}

// from is the least Nanos for which s is used.
func (s *stamp) from() int64 { return s.nanos - int64(time.Second) }

const dateLayout = "Mon, 02 Jan 2006 15:04:05 GMT"

var current atomic.Pointer[stamp]

// at returns a stamp for the second that contains now, a result of Nanos.
func at(now int64) *stamp {
	s := current.Load()
	if s != nil && now < s.until && now >= s.from() {
		return s
	}
	wall := time.Now()
	s = &stamp{nanos: int64(wall.Sub(base)), wall: wall}
	s.until = s.nanos + int64(time.Second) - int64(wall.Nanosecond())
	wall.UTC().AppendFormat(s.date[:0], dateLayout)
	current.Store(s)
	return s
}

// Date returns the time of now, a result of Nanos, as an HTTP date (RFC 9110 section
// 5.6.7). Nothing changes it later.
func Date(now int64) *[len(dateLayout)]byte { return &at(now).date }

// DateUntil is Date, and returns also the range in which the date may be used, in Nanos: from
// is in it, until is not.
func DateUntil(now int64) (date *[len(dateLayout)]byte, from, until int64) {
	s := at(now)
	return &s.date, s.from(), s.until
}

// Time returns the wall time of a recent now, a result of Nanos. It follows changes
// of the wall clock within a second, without reading it.
func Time(now int64) time.Time {
	s := at(now)
	return s.wall.Add(time.Duration(now - s.nanos))
}

// Coarse returns a wall time that is at most one second old.
func Coarse() time.Time {
	return at(Nanos()).wall
}
