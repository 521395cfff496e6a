package sse

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// give hands over what can be, until count streams have moved.
func (f *fixture) give(to *fixture, count int) {
	f.t.Helper()
	total := 0
	eventually(f.t, fmt.Sprint(count, " streams move"), func() bool {
		total += f.server.Control().HandOver(-1, func(conn net.Conn, p sluice.Parcel) {
			if err := to.server.Control().AdoptConn(conn, p); err != nil {
				f.t.Error(err)
			}
		})
		return total >= count
	})
}

// TestMove: streams go on in another server, which has the same events.
func TestMove(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		m := &mesh{}
		closed := make(chan error, 10)
		o := Options{Name: "x", OnClose: func(_ []string, err error) { closed <- err }}
		o.Backplane = m.plane(t)
		from := start(t, e, o)
		o.Backplane = m.plane(t)
		to := start(t, e, o)
		from.publish("a", "before")
		one, several, old := from.open("a", ""), from.open("a,b", ""), from.ask("GET /a HTTP/1.0\r\n\r\n")
		from.joined("a", 3)
		from.publish("a", "1")
		one.want("1")
		several.want("1")
		old.want("1")
		from.give(to, 3)
		from.joined("a", 0)
		to.joined("a", 3)
		from.publish("a", "2")
		to.publish("b", "3")
		one.want("2")
		old.want("2")
		for range 2 { // there is no order between processes
			if e, err := several.Next(); err != nil || string(e.Data) != "2" && string(e.Data) != "3" {
				t.Errorf("%q, %v", e.Data, err)
			}
		}
		id := one.LastID()
		from.publish("a", "4")
		one.want("4")
		from.open("a", id).want("4")
		if len(closed) > 0 {
			t.Errorf("OnClose was called: %v", <-closed)
		}
	})
}

// TestMoveWithGap: a stream ends whose next events the other server does not have.
func TestMoveWithGap(t *testing.T) {
	m := &mesh{}
	from := start(t, sluice.EngineAuto, Options{Name: "x", Backplane: m.plane(t)})
	c := from.open("a", "")
	from.joined("a", 1)
	from.publish("a", "1")
	c.want("1")
	to := start(t, sluice.EngineAuto, Options{Name: "x", Backplane: m.plane(t)})
	from.hub.mu.Lock()
	run := from.hub.log.sources[0].run
	from.hub.mu.Unlock()
	m.planes[1].receiver.Received("", appendMessage(nil, message{topic: "a", mark: mark{run, 3}, event: Event{Data: []byte("3")}}))
	eventually(t, "nobody has event 2", func() bool { return to.hub.Stats().Events == 2 })
	from.give(to, 1)
	c.wantEnd()
	if c.Retry() < time.Second || c.Retry() > 2*time.Second {
		t.Errorf("retry %v", c.Retry())
	}
}

// TestMoveTwice: a stream moves on before the second server has got what the first one has sent.
// The third one does not send it again.
func TestMoveTwice(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		var all []*fixture
		var planes []*mesh // without a connection between them
		for i := range 3 {
			planes = append(planes, &mesh{})
			all = append(all, start(t, e, Options{Name: "x", Backplane: planes[i].plane(t)}))
		}
		c := all[0].open("a,b", "")
		all[0].joined("a", 1)
		all[0].publish("a", "1")
		c.want("1")
		run := all[0].hub.log.sources[0].run
		get := func(to int, number uint64) {
			data := []byte(fmt.Sprint(number))
			planes[to].planes[0].receiver.Received("", appendMessage(nil, message{topic: "a", mark: mark{run, number}, event: Event{Data: data}}))
		}
		all[0].give(all[1], 1)
		all[1].joined("a", 1)
		all[1].publish("b", "of the second")
		c.want("of the second")
		all[1].give(all[2], 1)
		all[2].joined("a", 1)
		get(2, 1)
		get(2, 2)
		c.want("2")
		if id := c.LastID(); !strings.Contains(id, fmt.Sprint(".", 2)) {
			t.Errorf("the ID is %q", id)
		}
	})
}

// TestMoveToAStranger: a server that does not know the Hub's name ends the stream in order.
func TestMoveToAStranger(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		from, to := start(t, e, Options{Name: "x"}), start(t, e, Options{Name: "y"})
		c := from.open("a", "")
		from.joined("a", 1)
		from.give(to, 1)
		c.wantEnd()
		if c.Retry() == 0 {
			t.Error("the client is not told when to come back")
		}
	})
}

// TestStay: streams that cannot move end one by one when another process replaces theirs.
func TestStay(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		closed := make(chan error, 10)
		f := start(t, e, Options{RestartSpread: 50 * time.Millisecond, OnClose: func(_ []string, err error) { closed <- err }})
		var clients []*client
		for range 10 {
			clients = append(clients, f.open("a", ""))
		}
		f.joined("a", len(clients))
		if n := f.server.Control().HandOver(-1, func(net.Conn, sluice.Parcel) {}); n != 0 {
			t.Errorf("%d streams have moved", n)
		}
		f.server.Control().CloseOnNextResponse()
		for _, c := range clients {
			c.wantEnd()
		}
		for range clients {
			if err := <-closed; err != ErrGoingAway {
				t.Errorf("OnClose got %v", err)
			}
		}
	})
}

func FuzzMoved(f *testing.F) {
	f.Add(appendMoved(nil, moved{form: formRaw, had: position{{1, 2}, {3, 4}}, topics: []string{"a", "b"}}))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, ok := parseMoved(in)
		if !ok {
			return
		}
		if len(m.had) == 0 || len(m.topics) == 0 {
			t.Fatalf("%+v", m)
		}
		again, ok := parseMoved(appendMoved(nil, m))
		if !ok || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add(appendMessage(nil, message{topic: "a", mark: mark{1, 2}, event: Event{Name: "n", Data: []byte("d")}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, ok := parseMessage(in)
		if !ok {
			return
		}
		again, ok := parseMessage(appendMessage(nil, m))
		if !ok || fmt.Sprint(again) != fmt.Sprint(m) || m.mark.number == 0 || len(m.topic) > MaxTopic || m.event.check() != nil {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

func FuzzPosition(f *testing.F) {
	f.Add("1z.5-0.7")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parsePosition(text)
		if !ok {
			return
		}
		again, ok := parsePosition(string(appendPosition(nil, p)))
		if !ok || fmt.Sprint(again) != fmt.Sprint(p) || len(p) > maxMarks {
			t.Fatalf("%v became %v", p, again)
		}
		with := append(position(nil), p...).with(mark{5, 9})
		if n, ok := with.find(5); !ok || n != 9 || len(with) > maxMarks || with[0].run != 5 {
			t.Fatalf("%v with 5.9 is %v", p, with)
		}
	})
}

// FuzzEvent: a client reads the data that was published, whatever they are.
func FuzzEvent(f *testing.F) {
	f.Add("tick", []byte("one\r\ntwo\rthree\n"), 3)
	f.Add("", []byte(""), 1)
	f.Fuzz(func(t *testing.T, name string, data []byte, size int) {
		e := Event{Name: name, Data: data}
		if e.check() != nil {
			return
		}
		text := appendText([]byte("id: 1.1\n"), name, data)
		text = append(append(text, comment...), appendText(nil, "", []byte("end"))...)
		r := NewReader(&pieces{in: text, size: max(size%100, 1)})
		got, err := r.Next()
		want := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
		if err != nil || got.Name != name || got.ID != "1.1" || string(got.Data) != want {
			t.Fatalf("%q became %+v, %v", text, got, err)
		}
		if got, err = r.Next(); err != nil || string(got.Data) != "end" || got.Name != "" || got.ID != "1.1" {
			t.Fatalf("after %q: %+v, %v", text, got, err)
		}
	})
}

// pieces is a Reader that returns a few bytes at a time.
type pieces struct {
	in   []byte
	size int
}

func (p *pieces) Read(dst []byte) (int, error) {
	n := copy(dst, p.in[:min(p.size, len(p.in))])
	p.in = p.in[n:]
	if n == 0 {
		return bytes.NewReader(nil).Read(dst)
	}
	return n, nil
}
