package message

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestHeadStartOfAnotherSecond: what a head began with serves only one second, one
// status, one server and one type.
func TestHeadStartOfAnotherSecond(t *testing.T) {
	var h ResponseHeader
	h.DefaultServer, h.ShowsServer = []byte("s"), true
	f := Framing{Date: clock.Nanos(), Length: 5}
	fresh := string(h.AppendHead(nil, f))
	if h.start.length != f.Length {
		t.Errorf("the start has length %d", h.start.length)
	}
	for name, spoil := range map[string]func(s *headStart){
		"from":   func(s *headStart) { s.from = f.Date + 1 },
		"until":  func(s *headStart) { s.until = f.Date },
		"status": func(s *headStart) { s.status = 404 },
		"server": func(s *headStart) { s.server = []byte("s") },
		"name":   func(s *headStart) { s.server = nil },
	} {
		copy(h.start.text, "stale")
		if got := string(h.AppendHead(nil, f)); got[:5] != "stale" {
			t.Fatalf("the start is not used: %q", got)
		}
		spoil(&h.start)
		if got := string(h.AppendHead(nil, f)); got != fresh {
			t.Errorf("with another %s:\n got %q\nwant %q", name, got, fresh)
		}
	}
}

// change changes a header or its framing.
func change(r *rand.Rand, h *ResponseHeader, f *Framing) {
	text := func(texts ...string) []byte { return []byte(texts[r.IntN(len(texts))]) }
	switch r.IntN(26) {
	case 0:
		h.SetStatus([]int{0, 200, 204, 404, 999, 1000}[r.IntN(6)])
	case 1:
		f.Length = []int64{-2, -1, 0, 1, 10, 12345}[r.IntN(6)]
	case 2, 3:
		h.SetContentType(text("", "a/b", "a/b;c", "text/plain; charset=utf-8", strings.Repeat("x", 127), strings.Repeat("x", 128)))
	case 4:
		h.SetContentType(text("a\x01b", "a\r\nb"))
	case 5:
		h.SetKnown(field.Server, text("", "mine"))
	case 6:
		h.Del(text("Server", "content-type", "X-A", "Connection"))
	case 7:
		h.DefaultServer = text("", "one", "two")
	case 8:
		h.DefaultServer = nil
	case 9:
		h.ShowsServer = !h.ShowsServer
	case 10:
		f.NamesServer = !f.NamesServer
	case 11:
		f.Date = []int64{0, clock.Nanos()}[r.IntN(2)]
	case 12:
		h.SetReason(text("", "Why"))
	case 13:
		h.SetProtocol(text("HTTP/1.0", "HTTP/1.1"))
	case 14:
		h.ConnectionClose = !h.ConnectionClose
	case 15:
		f.CloseConnection, f.KeepAlive = r.IntN(2) == 0, r.IntN(2) == 0
	case 16:
		h.NoDefaultContentType, f.OmitDefaultType = r.IntN(2) == 0, r.IntN(2) == 0
	case 17:
		h.SetKeepNames(!h.Table.KeepNames)
	case 18:
		_ = h.ReplaceAnnouncement(text("", "Sum"))
	case 19:
		h.Put(string(text("X-A", "alt-svc", "content-type", "Date", "Connection", "Set-Cookie", "Content-Encoding")), text("v", "w"), Sets)
	case 20:
		h.DefaultAltSvc = [][]byte{nil, altSvc}[r.IntN(2)]
	case 21, 22:
		var other ResponseHeader
		other.SetContentType(text("a/b", "c/d"))
		_ = other.AppendHead(nil, Framing{Date: clock.Nanos(), NamesServer: true})
		if r.IntN(2) == 0 {
			other.CopyTo(h)
		} else {
			h.Exchange(&other)
		}
	default:
		h.Reset()
		*f = Framing{Date: clock.Nanos(), NamesServer: true, Length: 5}
	}
}

var altSvc = []byte(`h3=":443"; ma=86400`)

// TestAltSvc: a head has the server's Alt-Svc unless it has its own, in any form, and that
// costs no memory.
func TestAltSvc(t *testing.T) {
	var h ResponseHeader
	h.DefaultServer, h.DefaultAltSvc = []byte("s"), altSvc
	for _, name := range []string{"", "Alt-Svc", "alt-svc"} {
		if name != "" {
			h.Table.AddExact([]byte(name), []byte("clear"))
		}
		for _, date := range []int64{0, clock.Nanos()} {
			f := Framing{Length: 5, Date: date, NamesServer: true}
			want := 1
			if name != "" {
				want = 0
			}
			if got := string(h.AppendHead(nil, f)); strings.Count(got, "\r\nAlt-Svc: "+string(altSvc)+"\r\n") != want {
				t.Errorf("with %q: %q", name, got)
			}
			var e h2.Encoder
			e.Reset(&h2.Pairs{})
			if _, _, got := decodeHead(t, fieldlist.Response, h.AppendFields(e.Begin(nil), &e, f)); strings.Count(got, "Alt-Svc: "+string(altSvc)) != want {
				t.Errorf("with %q, fields: %q", name, got)
			}
		}
		h.Reset()
	}
	f := Framing{Length: 5, Date: clock.Nanos(), NamesServer: true}
	out := h.AppendHead(nil, f)
	if !h.isBare(&f) {
		t.Fatal("the head is not bare")
	}
	if n := testing.AllocsPerRun(100, func() { out = h.AppendHead(out[:0], f) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var e h2.Encoder
	e.Reset(&h2.Pairs{})
	if n := testing.AllocsPerRun(100, func() { out = h.AppendFields(e.Begin(out[:0]), &e, f) }); n > 0 {
		t.Errorf("%v allocations for a field block", n)
	}
	with := len(out)
	h.DefaultAltSvc = nil
	if without := len(h.AppendFields(e.Begin(out[:0]), &e, f)); with != without+1 {
		t.Errorf("the field takes %d bytes of a block, want 1", with-without)
	}
}

// TestHeadStartIsInvisible: whatever a header has written before, it writes what it
// writes without a start.
func TestHeadStartIsInvisible(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h ResponseHeader
	f := Framing{Date: clock.Nanos()}
	bare, begun := 0, 0
	for range 50_000 {
		change(r, &h, &f)
		date := clock.Date(f.Date)
		got := string(h.AppendHead(nil, f))
		start := h.startFor(&f)
		want := string(h.appendHead(nil, nil, &f))
		if now, from, _ := clock.DateUntil(f.Date); now != date || start != nil && start.from != from {
			continue // the clock has been read again: another second, or a step of the wall clock
		}
		if got != want {
			t.Fatalf("with the start %q:\n got %q\nwant %q", h.start.text, got, want)
		}
		switch {
		case start != nil && h.isBare(&f):
			bare++
		case start != nil:
			begun++
		}
		if cap(h.start.text) > 1024 {
			t.Fatalf("a start takes %d bytes", cap(h.start.text))
		}
	}
	if bare < 5000 || begun < 2500 {
		t.Errorf("%d heads were bare, %d began with a start", bare, begun)
	}
}

// TestStartsOfCopies: the heads of a response and of its copy by assignment are their own, also if both
// change.
func TestStartsOfCopies(t *testing.T) {
	head := func(h *ResponseHeader) string { return string(h.AppendHead(nil, Framing{Date: 1, Length: 2})) }
	fresh := func(status int, server string) string {
		var h ResponseHeader
		h.DefaultServer, h.ShowsServer = []byte("own"), true
		h.SetStatus(status)
		if server != "" {
			h.SetKnown(field.Server, []byte(server))
		}
		return head(&h)
	}
	for _, server := range []string{"", "other"} {
		var first ResponseHeader
		first.DefaultServer, first.ShowsServer = []byte("own"), true
		if server != "" {
			first.SetKnown(field.Server, []byte(server))
		}
		_ = head(&first)
		second := first
		second.SetStatus(404)
		for range 2 {
			for h, status := range map[*ResponseHeader]int{&first: 200, &second: 404} {
				if got, want := head(h), fresh(status, server); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		}
	}
}
