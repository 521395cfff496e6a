package message

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// decodeHead decodes a block as the other side does.
func decodeHead(t *testing.T, kind fieldlist.Kind, block []byte) (head fieldlist.Head, fields *field.Table, text string) {
	t.Helper()
	d := h2.Decoder{List: fieldlist.List{Limits: h1.DefaultLimits, AcceptsConnect: true}}
	d.Reset()
	fields = &field.Table{}
	d.Begin(kind, fields, &head)
	if err := d.Push(block); err != nil {
		t.Fatal(err)
	}
	if err := d.End(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range fields.Len() {
		all = append(all, string(fields.Name(i))+": "+string(fields.Value(i)))
	}
	return head, fields, strings.Join(all, "\n")
}

// Fields have the order of HTTP/1.1; those that concern a connection are left out.
func TestAppendFieldsOfRequest(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(h *RequestHeader)
		f    Framing
		want string
	}{
		{"nothing", func(*RequestHeader) {}, Framing{Length: -2}, "Host: h"},
		{"body", func(*RequestHeader) {}, Framing{Length: 5}, "Content-Type: application/octet-stream\nContent-Length: 5\nHost: h"},
		{"body of one byte", func(*RequestHeader) {}, Framing{Length: 1}, "Content-Type: application/octet-stream\nContent-Length: 1\nHost: h"},
		{"empty body", func(*RequestHeader) {}, Framing{}, "Content-Length: 0\nHost: h"},
		{"body of unknown length", func(h *RequestHeader) {
			h.Put("content-type", []byte("text/x"), Sets)
		}, Framing{Length: -1}, "Content-Type: text/x\nHost: h"},
		{"connection", func(h *RequestHeader) {
			for _, name := range []string{"Keep-Alive", "Upgrade", "Proxy-Connection", "X-Hop", "X-Kept", "Te"} {
				h.Put(name, []byte("v"), Sets)
			}
			h.Put("Connection", []byte("keep-alive, x-hop"), Sets)
		}, Framing{Length: -2, CloseConnection: true}, "X-Kept: v\nHost: h"},
		{"trailers are accepted", func(h *RequestHeader) { h.Put("TE", []byte("trailers"), Sets) }, Framing{Length: -2}, "Te: trailers\nHost: h"},
		{"cookies are one field", func(h *RequestHeader) {
			h.SetCookie([]byte("a"), []byte("1"))
			h.SetCookie([]byte("b"), []byte("2"))
			h.Put("User-Agent", []byte("me"), Sets)
			h.Put("X-A", []byte(" \x01v\t"), Sets)
		}, Framing{Length: -2}, "User-Agent: me\nX-A: v\nCookie: a=1; b=2\nHost: h"},
		{"raw", func(h *RequestHeader) {
			h.SetRaw(true)
			h.Put("Cookie", []byte("a=1"), Sets)
			h.Put("content-length", []byte("9"), Sets)
			h.Put("Content-Type", []byte("b"), Sets)
		}, Framing{Length: 3}, "Content-Length: 3\nContent-Type: b\nCookie: a=1\nHost: h"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h RequestHeader
			h.SetTarget([]byte("/p?q#f"))
			h.Put("Host", []byte("h"), Sets)
			tc.set(&h)
			var e h2.Encoder
			e.Reset(&h2.Pairs{})
			head, fields, got := decodeHead(t, fieldlist.Request, h.AppendFields(e.Begin(nil), &e, []byte("https"), tc.f))
			raw := fields.Raw()
			if string(head.Method.In(raw)) != "GET" || string(head.Target.In(raw)) != "/p?q" || string(head.Scheme.In(raw)) != "https" || string(head.Authority.In(raw)) != "h" {
				t.Errorf("the pseudo-fields are %q %q %q %q", head.Method.In(raw), head.Target.In(raw), head.Scheme.In(raw), head.Authority.In(raw))
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// The head of a response over HTTP/2: the name of the server is the one that was set, or else
// the default if it is wanted.
func TestAppendFieldsOfResponse(t *testing.T) {
	for _, tc := range []struct {
		name, set, byDefault string
		f                    Framing
		want                 string
	}{
		{"no name", "", "", Framing{NamesServer: true}, ""},
		{"the default", "", "ours", Framing{NamesServer: true}, "Server: ours\n"},
		{"the default is not wanted", "", "ours", Framing{}, ""},
		{"one that was set", "mine", "ours", Framing{NamesServer: true}, "Server: mine\n"},
		{"one that was set only", "mine", "ours", Framing{}, "Server: mine\n"},
	} {
		var h ResponseHeader
		h.DefaultServer = []byte(tc.byDefault)
		if tc.set != "" {
			h.Put("Server", []byte(tc.set), Sets)
		}
		var e h2.Encoder
		e.Reset(&h2.Pairs{})
		tc.f.Length = 2
		head, _, got := decodeHead(t, fieldlist.Response, h.AppendFields(e.Begin(nil), &e, tc.f))
		if want := tc.want + "Content-Type: text/plain; charset=utf-8\nContent-Length: 2"; got != want || head.StatusCode != 200 {
			t.Errorf("%s: %d, got\n%s\nwant\n%s", tc.name, head.StatusCode, got, want)
		}
	}
}

// What a response says about its length, as HTTP/1.1 would.
func TestSetReceived(t *testing.T) {
	for _, tc := range []struct {
		name       string
		status     int
		length     int64
		isLast     bool
		wantLength int
	}{
		{"length", 200, 5, false, 5},
		{"no length", 200, -2, false, -1},
		{"no body", 200, -2, true, 0},
		{"HEAD", 200, 5, true, 5},
		{"204", 204, -2, true, -2},
		{"304 with a length", 304, 7, true, 7},
	} {
		var h ResponseHeader
		var e h2.Encoder
		e.Reset(&h2.Pairs{})
		block := e.AppendStatus(e.Begin(nil), tc.status)
		if tc.length >= 0 {
			block = e.AppendLength(block, tc.length)
		}
		head, fields, _ := decodeHead(t, fieldlist.Response, block)
		fields.CopyTo(&h.Table)
		h.SetReceived(&head, tc.isLast, 2)
		if h.ContentLength != tc.wantLength || h.ConnectionClose || h.Status() != tc.status || string(h.Protocol()) != "HTTP/2.0" {
			t.Errorf("%s: length %d, close %v, status %d, %s", tc.name, h.ContentLength, h.ConnectionClose, h.Status(), h.Protocol())
		}
		if h.Peek([]byte("Transfer-Encoding")) != nil {
			t.Errorf("%s: has a Transfer-Encoding", tc.name)
		}
	}
}

// TestAppendConnect: the method is CONNECT, and :protocol is sent (RFC 8441 section 4).
func TestAppendConnect(t *testing.T) {
	var h RequestHeader
	h.SetTarget([]byte("/chat"))
	h.Put("Host", []byte("h"), Sets)
	h.Put("X", []byte("1"), Sets)
	var e h2.Encoder
	e.Reset(&h2.Pairs{})
	head, fields, got := decodeHead(t, fieldlist.Request, h.AppendConnect(e.Begin(nil), &e, []byte("https"), []byte("websocket")))
	raw := fields.Raw()
	if string(head.Method.In(raw)) != "CONNECT" || string(head.Target.In(raw)) != "/chat" || string(head.Connect.In(raw)) != "websocket" || string(head.Authority.In(raw)) != "h" {
		t.Errorf("%q %q %q %q", head.Method.In(raw), head.Target.In(raw), head.Connect.In(raw), head.Authority.In(raw))
	}
	if want := "X: 1\nHost: h"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// BenchmarkAppendFields is the head of a small response on a connection that has had others.
func BenchmarkAppendFields(b *testing.B) {
	for _, tc := range []struct {
		name   string
		altSvc []byte
	}{{"plain", nil}, {"AltSvc", altSvc}} {
		b.Run(tc.name, func(b *testing.B) {
			var h ResponseHeader
			var e h2.Encoder
			e.Reset(&h2.Pairs{})
			h.DefaultServer, h.DefaultAltSvc = []byte("s"), tc.altSvc
			f := Framing{Length: 13, Date: clock.Nanos(), NamesServer: true}
			var out []byte
			for b.Loop() {
				out = h.AppendFields(e.Begin(out[:0]), &e, f)
			}
		})
	}
}
