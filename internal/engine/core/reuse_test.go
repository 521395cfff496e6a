//go:build linux && (amd64 || arm64)

package core

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A veteran is an echo that can be reused, unless its Memo is of another kind.
type veteran struct {
	*echo
	reused, released int
	arrived          int64
}

var _ engine.Reusable = (*veteran)(nil)

func (*veteran) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanReuse }
func (v *veteran) Retire() engine.Memo             { return v.memo }
func (v *veteran) Release()                        { v.released++ }
func (v *veteran) Reuse(c engine.Conn, m engine.Memo, arrived int64) bool {
	if m.Served == otherKind {
		return false
	}
	v.conn, v.memo, v.arrived = c, m, arrived
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
	if !c.sleep() || c.Protocol != nil || c.slot().memo.ID != 1 || c.retired.protocol != engine.Protocol(old) {
		t.Fatalf("sleeps with %+v, has %v", c.slot().memo, c.Protocol)
	}
	l := &loop{}
	l.passed.Store(7)
	for _, test := range []struct {
		name    string
		serving *serving
		memo    engine.Memo
		isOld   bool
		arrived int64
	}{
		{"another serving", other, engine.Memo{ID: 2}, false, 0},
		{"another kind", own, engine.Memo{ID: 3, Served: otherKind}, false, 0},
		{"the same", own, engine.Memo{ID: 4}, true, 7},
		{"after one that did not sleep", own, engine.Memo{ID: 5}, false, 7},
	} {
		c.reset()
		c.driver, c.loop, c.place, c.serving, c.worker, c.phase, c.isUsual = d, l, d.table.open(6), test.serving, w, phaseOpen, true
		c.slot().memo = test.memo
		c.wake()
		if is := c.Protocol == engine.Protocol(old); is != test.isOld || is && old.memo != test.memo || old.arrived != test.arrived || !c.Can.Has(engine.CanSleep) {
			t.Errorf("%s: woke as %v, %+v", test.name, c.Protocol, old.memo)
		}
	}
	if old.reused != 1 || c.retired != (retired{}) {
		t.Errorf("reused %d times; there is %+v", old.reused, c.retired)
	}
	last := &veteran{echo: old.echo}
	for _, v := range []*veteran{old, last} {
		c.Protocol, c.Can, c.isReused = v, v.Capabilities(), false
		if !c.sleep() || c.retired.protocol != engine.Protocol(v) {
			t.Errorf("there is %+v", c.retired)
		}
	}
	if old.released != 1 || last.released != 0 {
		t.Errorf("of two, %d and %d were released", old.released, last.released)
	}
	last.arrived, c.isUsual = 1, false // something else than input has claimed it
	if c.wake(); last.reused != 1 || last.arrived != 0 {
		t.Errorf("reused %d times, with input of %d", last.reused, last.arrived)
	}
}

// TestUsualAfterWatch: a connection whose handler was told of its peer is as usual after the Run,
// unless something else has happened to it.
func TestUsualAfterWatch(t *testing.T) {
	for name, test := range map[string]struct {
		wasUsual bool
		during   func(c *conn)
		isUsual  bool
	}{
		"nothing else":  {true, func(*conn) {}, true},
		"told twice":    {true, func(c *conn) { c.OnPeerGone(func() {}) }, true},
		"told no more":  {true, func(c *conn) { c.OnPeerGone(nil) }, true},
		"unusual":       {false, func(*conn) {}, false},
		"it waits":      {true, (*conn).show, false},
		"a net.Conn":    {true, func(c *conn) { c.NetConn() }, false},
		"a runState":    {true, func(c *conn) { c.runState() }, false},
		"output waits":  {true, func(c *conn) { c.sendLater([]byte("rest")) }, false},
		"then it waits": {true, func(c *conn) { c.show(); c.OnPeerGone(func() {}) }, false},
	} {
		d := swept()
		p := d.table.open(7)
		p.slot().open(3, 0, flagAdded)
		c := &conn{connState: connState{driver: d, loop: &loop{}, place: p, fd: 7, gen: 3, serving: &serving{}, worker: &worker{}, phase: phaseOpen, isUsual: test.wasUsual}}
		c.isReused = true
		c.OnPeerGone(func() { t.Errorf("%s: the peer is gone", name) })
		if !c.isShown || p.conn().Load() != c || c.isUsual || !c.slot().has(flagWatch) {
			t.Errorf("%s: shown %t, usual %t", name, c.isShown, c.isUsual)
		}
		test.during(c)
		c.endRun(engine.Read)
		if c.isUsual != test.isUsual || c.isShown == test.isUsual || (p.conn().Load() == c) != c.isShown || c.isLent || c.isWatched || c.gone.Wanted() {
			t.Errorf("%s: at the end shown %t, usual %t", name, c.isShown, c.isUsual)
		}
	}
}

// TestRebind: a conn at rest is for a sleeping connection over bare TCP of the same serving. A
// later one may have the index of a serving that has gone.
func TestRebind(t *testing.T) {
	d := swept()
	own, other := &serving{}, &serving{}
	for name, test := range map[string]struct {
		there *serving
		flags uint64
		can   bool
	}{
		"the same":              {own, 0, true},
		"its index":             {other, 0, false},
		"a new connection":      {own, flagFresh, false},
		"before a handshake":    {own, flagHandshake | flagTLS, false},
		"over TLS":              {own, flagTLS, false},
		"with a peer that left": {own, flagGone, true},
	} {
		d.servings.Store(&[]*serving{test.there})
		p := d.table.open(7)
		p.slot().open(3, 0, test.flags)
		p.slot().writeTimeout = 5
		c := &conn{connState: connState{driver: d, serving: own, worker: &worker{}, phase: phaseOpen, isUsual: true}}
		c.isDated, c.Unread = true, []byte{}
		c.worker.output = buf.Get(firstOutputSize)
		c.rest()
		was := c.connState
		if got := c.rebind(p, 7); got != test.can {
			t.Errorf("%s: %t", name, got)
		}
		if isBound := c.fd == 7 && c.gen == 3 && c.place == p && c.writeTimeout == int64(5*time.Millisecond); isBound != test.can {
			t.Errorf("%s: %+v", name, c.connState)
		}
		if !test.can && !reflect.DeepEqual(c.connState, was) || c.isDated || c.Unread != nil {
			t.Errorf("%s: it has changed: %+v", name, c.connState)
		}
	}
}

// TestBuffersStay: a conn at rest keeps the worker's buffers until another conn has them, or the worker has
// others. Output that the worker does not keep does not stay.
func TestBuffersStay(t *testing.T) {
	d := swept()
	d.options.ReadBufferSize = 4096
	for name, test := range map[string]struct {
		change func(w *worker, c *conn)
		stay   bool
	}{
		"nothing":                 {func(*worker, *conn) {}, true},
		"longer output":           {func(w *worker, c *conn) { c.Out = make([]byte, 0, keptOutputSize) }, true},
		"output that is not kept": {func(w *worker, c *conn) { c.Out = make([]byte, 0, keptOutputSize+1) }, false},
		"a part of it":            {func(w *worker, c *conn) { c.Out = c.Out[:9][9:] }, false},
	} {
		w := &worker{loop: d.loops[0]}
		c := &conn{connState: connState{driver: d, serving: &serving{}, phase: phaseOpen, isUsual: true}}
		c.attach(w)
		test.change(w, c)
		c.rest()
		if stay := c.worker == w && w.lent == c; stay != test.stay {
			t.Errorf("%s: they stay: %v", name, stay)
		}
		if test.stay && (&c.In[0] != &w.input.B[:1][0] || len(c.In) != 4096 || len(c.Out) != 0 || &c.Out[:1][0] != &w.output.B[:1][0]) {
			t.Errorf("%s: they are others", name)
		}
		if other := (&conn{connState: connState{driver: d}}); test.stay {
			other.attach(w)
			if w.lent == c {
				t.Errorf("%s: another conn has them", name)
			}
			c.attach(w)
			if w.dropBuffers(); w.lent != nil {
				t.Errorf("%s: they are gone", name)
			}
		}
	}
}
