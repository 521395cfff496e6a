package http2

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A model drives a connection with steps that bytes choose: frames that are valid and
// not, cut anywhere, Tasks in any order, time-outs, and a peer that stops to read.
type model struct {
	*fakeEngine
	steps  []byte
	newest uint32
	rest   []byte // input that was cut off, for a later step
}

// FuzzConn checks after every step what must always be true, and at the end that every
// request was ended once.
func FuzzConn(f *testing.F) {
	for seed := range uint64(64) {
		r := rand.New(rand.NewPCG(seed, 0))
		steps := make([]byte, 600)
		for i := range steps {
			steps[i] = byte(r.Uint32())
		}
		f.Add(steps)
		f.Add(steps[1:])
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		steps = steps[:min(len(steps), 4000)]
		synctest.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.Settings.MaxConcurrentStreams = 8
			m := &model{fakeEngine: newEngine(t, cfg), steps: steps}
			m.recycle, m.peer.isQuiet = true, true
			m.isStreamed = func(r *testRequest) bool { return r.id%3 == 0 }
			m.handler = m.serve
			m.isMoving = len(steps)%2 == 1
			for len(m.steps) > 0 && !m.isLast {
				m.step()
				synctest.Wait()
				m.check()
			}
			t.Logf("%d of %d bytes were used, %v", len(steps)-len(m.steps), len(steps), m.conn.failure)
			m.close()
			m.goTasks()
			m.checkEnded()
		})
	})
}

// next returns a number below n that the steps choose.
func (m *model) next(n int) int {
	if len(m.steps) == 0 {
		return 0
	}
	b := m.steps[0]
	m.steps = m.steps[1:]
	return int(b) % n
}

// stream returns the number of a stream: mostly one that is open, rarely one that has
// ended or was never opened.
func (m *model) stream() uint32 {
	var ids []uint32
	for s := range m.conn.streams.each() {
		ids = append(ids, s.id)
	}
	slices.Reverse(ids)
	if i := m.next(64); i > 0 && len(ids) > 0 {
		return ids[i%len(ids)]
	} else if i > 0 {
		m.newest += 2
		m.rest = m.peer.request(m.rest, m.newest|1, post, false)
		return m.newest | 1
	}
	return max(m.newest, 17) - 2*uint32(m.next(9))
}

func (m *model) step() {
	switch m.next(24) {
	case 0, 1, 2:
		m.newest += 2
		m.cut(m.peer.request(nil, m.newest|1, get, true))
	case 3, 4, 5:
		m.newest += 2
		m.cut(m.peer.request(nil, m.newest|1, post, false, "content-type", "text/plain"))
	case 6, 7, 8, 9:
		m.cut(data(nil, m.stream()|1, m.next(64)<<8, m.next(4) == 0))
	case 10:
		m.cut(paddedData(nil, m.stream()|1, m.next(256), byte(m.next(256)), m.next(4) == 0))
	case 11:
		m.cut(h2.AppendReset(nil, m.stream()|1, h2.Code(m.next(16))))
	case 12:
		m.cut(h2.AppendWindowUpdate(nil, m.stream()|1, uint32(m.next(64))<<10))
	case 13:
		m.cut(h2.AppendWindowUpdate(nil, 0, uint32(1+m.next(64))<<10))
	case 14:
		m.cut(setting(nil, uint32(h2.SettingInitialWindowSize), uint32(m.next(32))<<12))
	case 15:
		m.cut(m.peer.trailer(nil, m.stream()|1, m.next(8) > 0))
	case 16:
		m.cut(h2.AppendPing(nil, drainPing, m.next(2) == 0))
	case 17:
		if m.next(16) == 0 {
			m.cut(frame(nil, byte(m.next(18)), byte(m.next(64)), m.stream(), make([]byte, m.next(16))))
		}
	case 18:
		m.isBlocked = !m.isBlocked
		m.pump()
	case 19:
		m.closing = m.next(16) == 0
		m.Prompt()
	case 20:
		time.Sleep(time.Duration(m.next(8)) * time.Second)
		m.expire()
	default:
		m.task()
	}
	synctest.Wait()
	m.pump()
}

// cut feeds in, in two parts and with what was cut off before.
func (m *model) cut(in []byte) {
	m.rest = append(m.rest, in...)
	n := len(m.rest)
	if m.next(4) == 0 {
		n = m.next(256) * n / 256
	}
	head := m.rest[:n]
	m.rest = m.rest[n:]
	m.feed(head)
}

// task begins any of the Tasks that wait.
func (m *model) task() {
	if len(m.tasks) == 0 {
		return
	}
	i := m.next(len(m.tasks))
	t := m.tasks[i]
	m.tasks = append(m.tasks[:i], m.tasks[i+1:]...)
	if i%5 == 4 {
		t.Lost(engine.ErrShutdown)
		return
	}
	go engine.RunTask(t)
}

// serve answers in one of the ways that a Request can.
func (m *model) serve(r *testRequest) {
	s := r.stream
	ok := fields{status: 200}
	switch r.id / 2 % 8 {
	case 0:
		s.Respond(ok, body)
	case 1:
		s.Respond(ok, make([]byte, 80<<10))
	case 2:
		if s.SendHead(ok, false, false) && s.Send(make([]byte, 100<<10)) {
			s.SendLast(body, nil)
		}
	case 3:
		_, _ = r.readAll()
		s.SendHead(fields{status: 103}, true, false)
		s.Respond(ok, body)
	case 4:
		s.SendHead(ok, false, false)
		s.SendLast(make([]byte, 40<<10), fields{extra: "t"})
	case 5:
		s.InterruptRead()
		s.SendHead(ok, false, true)
		s.EndAfter()
	case 6:
		s.SendHead(ok, false, false)
		s.Flush()
		s.Reset(h2.CodeCancel)
	case 7:
		panic("a handler")
	}
}

// check fails the test if something is not true that always must be.
func (m *model) check() {
	c, t := m.conn, m.t
	held, heads := 0, 0
	for s := range c.streams.each() {
		id := s.id
		if s.conn != c || c.streams.find(id) != s || s.exchange.cfg == nil {
			t.Fatalf("stream %d has ended and is in the table", id)
		}
		held += len(s.held)
		heads += s.head
		if unread := len(s.inbox) - s.taken; s.input == inputStreamed && int(s.window.Held()) > unread+16<<10 {
			t.Fatalf("stream %d: credit of %d bytes was lost", id, int(s.window.Held())-unread)
		}
		if s.node.IsQueued() && s.output != outputOpen && s.output != outputLast {
			t.Fatalf("stream %d waits to send in state %d", id, s.output)
		}
	}
	if held != c.held || heads != c.heads {
		t.Fatalf("%d bytes of content, counted %d; %d of heads, counted %d", held, c.held, heads, c.heads)
	}
	if c.sendWindow < 0 {
		t.Fatalf("window of the connection is %d", c.sendWindow)
	}
	w := &c.window
	if w.Held() > 16<<10 || int64(w.Left())+int64(w.Held()) < int64(w.Size()/2) {
		t.Fatalf("window of the connection: %d of %d left, %d held", w.Left(), w.Size(), w.Held())
	}
	if c.growth.Room < 0 || len(c.out) > outLimit || c.streams.count() > 8 {
		t.Fatalf("room %d, %d bytes of output, %d streams", c.growth.Room, len(c.out), c.streams.count())
	}
	if c.streams.count() == 0 && c.growth.Room+int64(w.Size()) != 17<<20 {
		t.Fatalf("without streams, %d of %d bytes of room remain", c.growth.Room, 17<<20-w.Size())
	}
}
