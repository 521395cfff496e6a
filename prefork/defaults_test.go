package prefork

import (
	"testing"
	"time"
)

// Times that are not set are the documented ones.
func TestDefaultTimes(t *testing.T) {
	for _, c := range []struct {
		p                    *Prefork
		grace, drain, linger time.Duration
	}{
		{&Prefork{}, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{&Prefork{ShutdownGracePeriod: -1, DrainTimeout: -1, IdleLinger: -1}, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		{&Prefork{ShutdownGracePeriod: 1}, 1, 1, 5 * time.Second},
		{&Prefork{ShutdownGracePeriod: 2, DrainTimeout: 1, IdleLinger: 1}, 2, 1, 1},
	} {
		if grace, drain, linger := c.p.grace(), c.p.drainTimeout(), c.p.idleLinger(); grace != c.grace || drain != c.drain || linger != c.linger {
			t.Errorf("%v, %v, %v: %v, %v, %v", c.p.ShutdownGracePeriod, c.p.DrainTimeout, c.p.IdleLinger, grace, drain, linger)
		}
	}
	if n := (&Prefork{}).network(); n != "tcp4" {
		t.Errorf("network %q", n)
	}
}

// Without a fleet, what is asked of the master does nothing.
func TestNoMaster(t *testing.T) {
	p := &Prefork{}
	p.Scale(3)
	p.Reopen()
}
