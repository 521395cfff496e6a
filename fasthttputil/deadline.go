package fasthttputil

import "time"

// A deadline applies to the reads or the writes of one direction. The pipe's
// mutex guards its fields. The zero value never expires.
type deadline struct {
	at      time.Time
	timer   *time.Timer // nil until the first deadline in the future; then reused
	expired bool        // I/O fails until the next set
}

// set moves the deadline to at; the zero time means none. It returns after what
// time a timer must call expire, 0 if no timer is needed.
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

// expire reports whether the deadline has passed. A timer that fired while set
// moved the deadline must not expire the new one.
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
