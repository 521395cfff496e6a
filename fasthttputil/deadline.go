package fasthttputil

import "time"

// A deadline of one direction's reads or writes. Its fields are guarded by the
// pipe's mutex. The zero value never expires.
type deadline struct {
	at      time.Time
	timer   *time.Timer // nil until the first deadline in the future; then reused
	expired bool        // I/O fails until the next set
}

// set moves the deadline to at; the zero time means none. It returns how long a
// timer must run before expire is called, 0 if none is needed.
func (d *deadline) set(at time.Time) (wait time.Duration) {
	d.stop()
	d.at, d.expired = at, false
	if at.IsZero() {
		return 0
	}
	wait = max(time.Until(at), 0)
	d.expired = wait == 0
	return wait
}

// expire tells whether the deadline has really come: a timer that fired while
// set was moving it must not expire the new one.
func (d *deadline) expire() bool {
	if d.at.IsZero() || time.Until(d.at) > 0 {
		return false
	}
	d.expired = true
	return true
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
