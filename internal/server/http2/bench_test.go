package http2

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A steady connection has the same streams again and again, with new numbers. Nothing of
// the test allocates.
type steady struct {
	engine *fakeEngine
	id     uint32
	in     []byte
	out    []byte
}

func newSteady(t testing.TB) *steady {
	e := newEngine(t, testConfig())
	e.recycle = true
	hello := []byte("Hello, World!")
	e.handler = func(r *testRequest) { r.stream.Respond(e, hello) }
	return &steady{engine: e, id: 1}
}

// AppendFields implements Fields without an allocation.
func (e *fakeEngine) AppendFields(dst []byte, enc message.FieldEncoder) []byte {
	return enc.AppendStatus(dst, 200)
}

// rounds has the peer send n requests at once, with bodies of size bytes, and reads the
// answers.
func (s *steady) round(n, size int) {
	e := s.engine
	s.in = s.in[:0]
	for range n {
		if size == 0 {
			s.in = e.peer.request(s.in, s.id, get, true)
		} else {
			s.in = e.peer.request(s.in, s.id, post, false)
			s.in = h2.AppendDataHead(s.in, s.id, size, true)
			s.in = append(s.in, body[:size]...)
		}
		s.id += 2
	}
	if used, _ := e.conn.Feed(s.in); used != len(s.in) {
		e.t.Fatal("input is left")
	}
	tasks := e.tasks
	e.tasks = e.tasks[:0]
	for _, task := range tasks {
		engine.RunTask(task)
	}
	var next engine.Next
	s.out = s.out[:0]
	for e.takePrompt() {
		if s.out, next = e.conn.Prompted(s.out); next != engine.Read {
			e.t.Fatalf("the connection has ended: %v", e.conn.failure)
		}
	}
	s.refill()
}

// refill opens the connection's window when half of it was used.
func (s *steady) refill() {
	if s.engine.conn.sendWindow < 1<<15 {
		s.in = h2.AppendWindowUpdate(s.in[:0], 0, 1<<15)
		s.engine.conn.Feed(s.in)
	}
}

// body is never written to.
var body = make([]byte, 1<<10)

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, test := range []struct {
		name    string
		n, size int
	}{{"GET", 1, 0}, {"32 GETs", 32, 0}, {"POST of 1 KiB", 1, 1 << 10}} {
		s := newSteady(t)
		s.round(test.n, test.size)
		if n := testing.AllocsPerRun(1000, func() { s.round(test.n, test.size) }); n != 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
		if served := s.engine.streams[0].served; served < 1000 {
			t.Errorf("%s: %d were served", test.name, served)
		}
	}
}

// BenchmarkBurst is 32 GETs that arrive together, as with h2load -m 32, without an
// engine.
func BenchmarkBurst(b *testing.B) {
	s := newSteady(b)
	s.round(32, 0)
	b.ReportAllocs()
	for b.Loop() {
		s.round(32, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/request")
}

// BenchmarkPost is one POST of 1 KiB at a time.
func BenchmarkPost(b *testing.B) {
	s := newSteady(b)
	s.round(1, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		s.round(1, 1<<10)
	}
}
