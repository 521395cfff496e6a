//go:build linux && (amd64 || arm64)

package core

import (
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// countCold returns how many idle TLS connections have cooled down, and how many have not.
func (d *driver) countCold() (cold, warm int) {
	d.table.each(func(_ int, p place) {
		if !p.slot().claim(0, flagPartial) {
			warm++
			return
		}
		if p.tlsConn() == nil {
			cold++
			all := &p.chunk.cold
			all.mu.Lock()
			if all.states.Load()[p.index] == (tls13.Packed{}) && all.large[p.index] == nil || all.facts[all.notes[p.index].facts].facts == nil {
				panic("there is no state")
			}
			all.mu.Unlock()
		} else {
			warm++
		}
		if !p.slot().release(0) {
			panic("something has happened")
		}
	})
	return cold, warm
}

// coolDown makes as many rounds as a connection stays warm.
func (d *driver) coolDown() {
	for range coolingRounds + 1 {
		d.cooler.turn()
	}
}

func dialTLSVersion(t testing.TB, ln net.Listener, version uint16) net.Conn {
	t.Helper()
	c := tls.Client(dial(t, ln), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, MaxVersion: version})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// serveCompact serves compact TLS on ln. The cooler makes no rounds of its own.
func serveCompact(t *testing.T, ln net.Listener, a engine.Acceptor) *driver {
	t.Helper()
	return serveCompactWith(t, ln, a, engine.Options{})
}

func serveCompactWith(t *testing.T, ln net.Listener, a engine.Acceptor, o engine.Options) *driver {
	t.Helper()
	d := serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t), Compact: true}, a, o)
	d.cooler.mu.Lock()
	defer d.cooler.mu.Unlock()
	d.cooler.period = time.Hour
	return d
}

// Connections of TLS 1.3 cool down when they are idle, and go on. Those of TLS 1.2 do not.
func TestCooling(t *testing.T) {
	ln := listen(t)
	d := serveCompact(t, ln, newEcho())
	var all []net.Conn
	for i := range 6 {
		version := uint16(tls.VersionTLS13)
		if i == 0 {
			version = tls.VersionTLS12
		}
		c := dialTLSVersion(t, ln, version)
		ask(t, c, "hello")
		all = append(all, c)
	}
	idle := func(cold, warm int) {
		t.Helper()
		eventually(t, "they are idle", func() bool {
			d.coolDown()
			is, not := d.countCold()
			return is == cold && not == warm
		})
		if stats := d.Stats(); stats.Cold != cold || stats.Compact != len(all)-1 {
			t.Errorf("%+v, want %d cold", stats, cold)
		}
	}
	idle(5, 1)
	for i := range 20 {
		ask(t, all[i%len(all)], "hello again")
	}
	if cold, warm := d.countCold(); cold != 0 {
		t.Errorf("%d are cold, %d warm, after all were used", cold, warm)
	}
	d.cooler.turn()
	if cold, _ := d.countCold(); cold != 0 {
		t.Errorf("%d are cold a round after their use", cold)
	}
	idle(5, 1)
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the end", func() bool { return d.countOpen() == 0 })
	for _, c := range *d.table.chunks.Load() {
		if c == nil || c.cold.states.Load() == nil {
			continue
		}
		for i, left := range c.cold.states.Load() {
			if left != (tls13.Packed{}) {
				t.Errorf("descriptor %d: keys are left", i)
			}
		}
		for _, left := range c.cold.facts {
			if left != (sharedFacts{}) {
				t.Errorf("facts are left: %+v", left)
			}
		}
		if len(c.cold.large) > 0 {
			t.Error("large states are left")
		}
	}
}

// A connection that is used once in a while keeps nothing. One that is used again soon does.
func TestCoolAfterOneUse(t *testing.T) {
	ln := listen(t)
	d := serveCompact(t, ln, newEcho())
	c := dialTLSVersion(t, ln, tls.VersionTLS13)
	is := func(cold, warm int) {
		t.Helper()
		eventually(t, "it is idle", func() bool {
			a, b := d.countCold()
			return a == cold && b == warm
		})
	}
	ask(t, c, "hello")
	eventually(t, "it is cold", func() bool {
		d.coolDown()
		return d.Stats().Cold == 1
	})
	for range 3 {
		ask(t, c, "once")
		is(1, 0)
		ask(t, c, "again")
		is(0, 1)
		eventually(t, "it is cold", func() bool {
			d.coolDown()
			return d.Stats().Cold == 1
		})
		d.cooler.turn()
		d.cooler.turn()
	}
}

// A connection that its deadline wakes, to send something, is as cold as before when it is
// idle again, and so is one whose peer answers that.
func TestCoolAfterDeadline(t *testing.T) {
	ln := listen(t)
	a := &beater{newEcho()}
	a.idle = 50 * time.Millisecond
	d := serveCompact(t, ln, a)
	c := dialTLSVersion(t, ln, tls.VersionTLS13)
	isCold := func() bool { return d.Stats().Cold == 1 }
	eventually(t, "it is cold", func() bool {
		d.coolDown()
		return isCold()
	})
	for range 3 {
		expect(t, c, "beat")
		eventually(t, "it is cold after a beat", isCold)
	}
	d.coolDown() // it was used long ago
	expect(t, c, "beat")
	ask(t, c, "beat") // the peer answers
	expect(t, c, "beat")
	eventually(t, "it is cold after an answer", isCold)
}

// A beater is an echoAcceptor whose protocols send something at their deadlines.
type beater struct{ *echoAcceptor }

func (b *beater) Open(c engine.Conn) (engine.Protocol, []byte) {
	p, _ := b.echoAcceptor.Open(c)
	return &beating{p.(*echo)}, nil
}

func (b *beater) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	return &beating{b.echoAcceptor.Wake(c, m).(*echo)}
}

type beating struct{ *echo }

func (b *beating) TimedOut(out []byte) ([]byte, engine.Next) {
	b.conn.SetReadDeadline(clock.Nanos(), b.acceptor.idle)
	return append(out, "beat"...), engine.Read
}

// A connection that waits in the middle of something has no ciphers, and goes on.
func TestRestInTheMiddle(t *testing.T) {
	const (
		count = 200
		least = 1 << 10 // two ciphers have half as much again
	)
	ln := listen(t)
	d := serveCompact(t, ln, &wakeful{newEcho()})
	var all []net.Conn
	for range count {
		c := dialTLSVersion(t, ln, tls.VersionTLS13)
		ask(t, c, "hello")
		all = append(all, c)
	}
	for range 2 {
		if !invariants.Enabled { // the race detector keeps memory of its own
			warm := heapInUse()
			eventually(t, "they have no ciphers", func() bool {
				d.coolDown()
				return (warm-heapInUse())/count >= least
			})
		}
		d.coolDown()
		if cold, warm := d.countCold(); cold != 0 || warm != count {
			t.Errorf("%d are cold, %d warm", cold, warm)
		}
		for _, c := range all {
			ask(t, c, "hello again")
		}
	}
}

// A wakeful is an echoAcceptor whose protocols are never idle.
type wakeful struct{ *echoAcceptor }

func (w *wakeful) Open(c engine.Conn) (engine.Protocol, []byte) {
	p, _ := w.echoAcceptor.Open(c)
	return waiting{p.(*echo)}, nil
}

type waiting struct{ *echo }

func (waiting) Capabilities() engine.Capabilities { return 0 }

func (waiting) Pause() bool { return false }

// A client that sends a part of a record and stops costs little.
func TestPartOfRecordMemory(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector keeps memory of its own")
	}
	const (
		count = 200
		most  = 8 << 10 // for each; the ciphers have 2.6 KB of it
	)
	ln := listen(t)
	// One for each connection may have come, if the machine is busy, and has 32 KB until it ends.
	d := serveCompactWith(t, ln, newEcho(), engine.Options{MaxIdleWorkerTime: 10 * time.Millisecond})
	var all []*tls.Conn
	for range count {
		c := dialTLSVersion(t, ln, tls.VersionTLS13).(*tls.Conn)
		ask(t, c, "hello")
		all = append(all, c)
	}
	eventually(t, "they are idle", func() bool {
		d.coolDown()
		return d.Stats().Cold == count
	})
	before := heapInUse()
	for _, c := range all {
		send(t, c.NetConn(), "\x17\x03\x03\x40\x11x") // the longest record
	}
	eventually(t, "they have begun a record", func() bool { return d.Stats().Cold == 0 })
	each := 0
	eventually(t, "they cost little", func() bool {
		each = (heapInUse() - before) / count
		return each <= most
	})
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Every suite's states are kept, and none twice, each with its facts.
func TestColdStates(t *testing.T) {
	var all coldConns
	facts := []*compact.Facts{{}, {}}
	suites := []tls13.Suite{tls13.AES128GCM, tls13.AES256GCM, tls13.ChaCha20, tls13.AES128GCM}
	var want []tls13.State
	for i, suite := range suites {
		in, out := make([]byte, suite.SecretSize()), make([]byte, suite.SecretSize())
		in[suite.SecretSize()-1], out[0] = byte(i+1), byte(i+1)
		state, err := tls13.NewState(suite, in, out, uint64(i), 9)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, state)
		if all.put(i, &state, facts[i%2]); state != (tls13.State{}) {
			t.Errorf("%#x: the state is in two places", suite)
		}
	}
	if len(all.facts) != 2 {
		t.Errorf("facts are there twice: %+v", all.facts)
	}
	for i := range suites {
		var got tls13.State
		if said := all.take(i, &got); got != want[i] || said != facts[i%2] {
			t.Errorf("%#x: %+v with %p of %p", suites[i], got, said, facts)
		}
		if all.states.Load()[i] != (tls13.Packed{}) || all.large[i] != nil {
			t.Errorf("%#x: a state is left", suites[i])
		}
	}
	all.put(0, &want[0], facts[0])
	if len(all.facts) != 2 || all.facts[1-all.notes[0].facts] != (sharedFacts{}) {
		t.Errorf("facts are left: %+v", all.facts)
	}
}

// TestColdMemory: the allocator gives objects of this size whole pages.
func TestColdMemory(t *testing.T) {
	const page = 8 << 10
	pages := func(size uintptr) int { return int(size+page-1) / page }
	all := pages(unsafe.Sizeof(chunk{})) + pages(unsafe.Sizeof([chunkSize]*tlsConn{})) + pages(unsafe.Sizeof([chunkSize]tls13.Packed{}))
	if each := all * page / chunkSize; each > 160 {
		t.Errorf("%d bytes for each TLS connection that waits", each)
	}
}
