//go:build linux && (amd64 || arm64)

package core

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A veteran is an echo that can be reused, unless its Memo is of another kind.
type veteran struct {
	*echo
	reused, released int
}

var _ engine.Reusable = (*veteran)(nil)

func (*veteran) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanReuse }
func (v *veteran) Retire() engine.Memo             { return v.memo }
func (v *veteran) Release()                        { v.released++ }
func (v *veteran) Reuse(c engine.Conn, m engine.Memo) bool {
	if m.Served == otherKind {
		return false
	}
	v.conn, v.memo = c, m
	v.reused++
	return true
}

const otherKind = 99

// TestReuse: a protocol that sleeps is for the next connection of the same serving. The others
// get another one, and it stays.
func TestReuse(t *testing.T) {
	d := swept()
	own, other := &serving{waker: newEcho()}, &serving{waker: newEcho()}
	old := &veteran{echo: &echo{acceptor: newEcho()}}
	old.memo.ID = 1
	w := &worker{}
	c := &conn{connState: connState{driver: d, place: d.table.open(5), serving: own, worker: w, phase: phaseOpen}}
	c.Protocol, c.Can = old, old.Capabilities()
	if !c.sleep() || c.Protocol != nil || c.slot().memo.ID != 1 || w.retired.protocol != engine.Protocol(old) {
		t.Fatalf("sleeps with %+v, has %v", c.slot().memo, c.Protocol)
	}
	for _, test := range []struct {
		name    string
		serving *serving
		memo    engine.Memo
		isOld   bool
	}{
		{"another serving", other, engine.Memo{ID: 2}, false},
		{"another kind", own, engine.Memo{ID: 3, Served: otherKind}, false},
		{"the same", own, engine.Memo{ID: 4}, true},
		{"one that is in use", own, engine.Memo{ID: 5}, false},
	} {
		c.reset()
		c.driver, c.place, c.serving, c.worker, c.phase = d, d.table.open(6), test.serving, w, phaseOpen
		c.slot().memo = test.memo
		c.wake()
		if is := c.Protocol == engine.Protocol(old); is != test.isOld || is && old.memo != test.memo || !c.Can.Has(engine.CanSleep) {
			t.Errorf("%s: woke as %v, %+v", test.name, c.Protocol, old.memo)
		}
	}
	if old.reused != 1 || w.retired.serving != nil {
		t.Errorf("reused %d times; the worker has %+v", old.reused, w.retired)
	}
	last := &veteran{echo: old.echo}
	for _, v := range []*veteran{old, last} {
		c.Protocol, c.Can = v, v.Capabilities()
		if !c.sleep() || w.retired.protocol != engine.Protocol(v) {
			t.Errorf("the worker has %+v", w.retired)
		}
	}
	if old.released != 1 || last.released != 0 {
		t.Errorf("of two, %d and %d were released", old.released, last.released)
	}
}
