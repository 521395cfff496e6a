package message_test

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestBadTrailers(t *testing.T) {
	for _, list := range []string{"Content-Length", "transfer-encoding", "Host", "Authorization", "Cookie", "Set-Cookie", "Trailer",
		"TE", "Content-Type", "Connection", "a b", "a\r\nb", ",", "x, host"} {
		var h sluice.RequestHeader
		if err := h.AddTrailer(list); !errors.Is(err, sluice.ErrBadTrailer) {
			t.Errorf("%q: %v", list, err)
		}
	}
	for _, h := range []interface {
		fieldsHeader
		AddTrailer(trailer string) error
		AddTrailerBytes(trailer []byte) error
		SetTrailer(trailer string) error
		SetTrailerBytes(trailer []byte) error
		VisitAllTrailer(f func(value []byte))
	}{new(sluice.RequestHeader), new(sluice.ResponseHeader)} {
		for _, test := range []struct {
			change func(list string) error
			list   string
			isBad  bool
			want   string
		}{
			{func(list string) error { return h.AddTrailerBytes([]byte(list)) }, "a, host, b, A", true, "A, B"},
			{h.AddTrailer, "b, c", false, "A, B, C"},
			{func(list string) error { return h.SetTrailerBytes([]byte(list)) }, "d", false, "D"},
			{h.SetTrailer, "e, te", true, "E"},
			{h.SetTrailer, "e,", false, "E"},
			{h.SetTrailer, "e, ", false, "E"},
			{h.SetTrailer, "e,\t ", false, "E"},
			{h.SetTrailer, " ", false, ""},
			{func(list string) error { h.Set("Trailer", list); return nil }, "f, content-length", false, "F"},
		} {
			err := test.change(test.list)
			var keys []string
			h.VisitAllTrailer(func(key []byte) { keys = append(keys, string(key)) })
			if got := string(h.Peek("Trailer")); got != test.want || strings.Join(keys, ", ") != test.want || errors.Is(err, sluice.ErrBadTrailer) != test.isBad {
				t.Errorf("%T, %q: announced %q, visited %q, %v", h, test.list, got, keys, err)
			}
		}
	}
}

func TestTrailerOfReceivedHead(t *testing.T) {
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nX: head\r\nTrailer: X\r\n\r\n")
	if got, want := h.String()+string(h.TrailerHeader()), "GET / HTTP/1.1\r\nHost: h\r\nX: head\r\nTrailer: X\r\n\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	h.Set("x", "new")
	if got, want := h.String()+string(h.TrailerHeader()), "GET / HTTP/1.1\r\nHost: h\r\nTrailer: X\r\n\r\nX: new\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	names := make([]string, 2*message.MaxAnnounced)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	h = harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nTrailer: "+strings.Join(names, ",")+"\r\n\r\n")
	if got := len(h.PeekTrailerKeys()); got != message.MaxAnnounced {
		t.Errorf("%d names announced", got)
	}
	if err := h.AddTrailer("one-more"); !errors.Is(err, sluice.ErrBadTrailer) {
		t.Errorf("one more: %v", err)
	}
}

// trailerMethods is what both types of headers have for trailer fields.
type trailerMethods interface {
	Set(key, value string)
	Add(key, value string)
	Del(key string)
	SetTrailer(trailer string) error
	SetTrailerBytes(trailer []byte) error
	AddTrailer(trailer string) error
	Peek(key string) []byte
	PeekAll(key string) [][]byte
	PeekKeys() [][]byte
	Len() int
	All() iter.Seq2[[]byte, []byte]
	VisitAll(f func(key, value []byte))
	TrailerHeader() []byte
	ReadTrailer(r *bufio.Reader) error
}

// onBothHeaders runs a test for headers of both types, which have nothing but
// the fields X and X-Both, and the trailer fields X-Both, announced, and X-Sent.
func onBothHeaders(t *testing.T, test func(t *testing.T, h trailerMethods)) {
	t.Helper()
	const fields = "X: 1\r\nX-Both: head\r\nTransfer-Encoding: chunked\r\nTrailer: X-Both\r\n\r\n"
	request := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\n"+fields)
	request.Del("Host")
	response := harness.ReadResponse(t, "HTTP/1.1 200 OK\r\n"+fields)
	response.SetNoDefaultContentType(true)
	for name, h := range map[string]trailerMethods{"request": request, "response": response} {
		if err := h.ReadTrailer(harness.Reader("X-Both: trailer\r\nX-Sent: 1\r\nX-Sent: 2\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

// sections describes the head and the trailer section.
func sections(h trailerMethods) string {
	return strings.Replace(fieldsOf(h.All())+" ", "Transfer-Encoding=chunked ", "", 1) + "| " +
		strings.ReplaceAll(strings.TrimRight(string(h.TrailerHeader()), "\r\n"), "\r\n", ", ")
}

// TestReceivedTrailersAreNotVisited: who copies a head field by field gets no
// field of the trailer section in it.
func TestReceivedTrailersAreNotVisited(t *testing.T) {
	onBothHeaders(t, func(t *testing.T, h trailerMethods) {
		if got, want := sections(h), "Trailer=X-Both, X-Sent X=1 X-Both=head | X-Both: trailer, X-Sent: 1, X-Sent: 2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, keys := h.Len(), fmt.Sprintf("%s", h.PeekKeys()); got != 4 || keys != "[Trailer Transfer-Encoding X X-Both]" {
			t.Errorf("%d fields, %s", got, keys)
		}
		for name, want := range map[string]string{"x-sent": "1 [1 2]", "x-both": "head [head trailer]", "x": "1 [1]"} {
			if got := fmt.Sprintf("%s %s", h.Peek(name), h.PeekAll(name)); got != want {
				t.Errorf("Peek(%s): %s, want %s", name, got, want)
			}
		}
		for i, change := range []func(){
			func() {},
			func() { h.Add("X-Sent", "3") },
			func() { _ = h.SetTrailer("Other") },
			func() { h.Set("Trailer", "") },
			func() { h.Del("Trailer") },
			func() { _ = h.AddTrailer("X-Sent"); h.Del("Trailer") },
			func() { _ = h.SetTrailer("X-Sent"); h.Set("X-Sent", "4"); h.Del("Trailer") },
		} {
			change()
			var request sluice.RequestHeader
			var response sluice.ResponseHeader
			h.VisitAll(func(key, value []byte) { request.AddBytesKV(key, value) })
			for key, value := range h.All() {
				response.SetBytesKV(key, value)
			}
			if head := request.String() + response.String(); strings.Contains(head, "X-Sent:") {
				t.Errorf("after change %d a trailer field is in the head: %q", i, head)
			}
		}
		if got := fmt.Sprintf("%s", h.PeekAll("x-sent")); got != "[4 2 3]" {
			t.Errorf("the received values became %s", got)
		}
		h.Del("x-sent")
		h.Del("x-both")
		if got, want := sections(h), "X=1 | "; got != want {
			t.Errorf("after Del: %s, want %s", got, want)
		}
	})
}

// TestReceivedSectionsStayApart: what is added to a name that came in the head
// and in the trailer section changes the trailer section. What is set replaces
// what a peer has sent in either.
func TestReceivedSectionsStayApart(t *testing.T) {
	onBothHeaders(t, func(t *testing.T, h trailerMethods) {
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { h.Add("X-Both", "more") }, "Trailer=X-Both, X-Sent X=1 X-Both=head | X-Both: trailer, X-Sent: 1, X-Sent: 2, X-Both: more"},
			{func() { _ = h.SetTrailer("x-sent, x-both") }, "Trailer=X-Sent, X-Both X=1 X-Both=head | X-Both: trailer, X-Sent: 1, X-Sent: 2, X-Both: more"},
			{func() { h.Set("X-Both", "set") }, "Trailer=X-Sent, X-Both X=1 | X-Both: set, X-Sent: 1, X-Sent: 2, X-Both: more"},
			{func() { h.Del("Trailer") }, "X=1 | X-Both: set, X-Sent: 1, X-Sent: 2, X-Both: more"},
			{func() { _ = h.AddTrailer("x-both") }, "Trailer=X-Both X=1 | X-Both: set, X-Sent: 1, X-Sent: 2, X-Both: more"},
		} {
			step.change()
			if got := sections(h); got != step.want {
				t.Errorf("got  %s\nwant %s", got, step.want)
			}
		}
	})
}

func responseWithoutType() *sluice.ResponseHeader {
	h := new(sluice.ResponseHeader)
	h.SetNoDefaultContentType(true)
	return h
}

// TestChangingTheAnnouncement: names that are dropped return to the head with
// their values, new ones take theirs along.
func TestChangingTheAnnouncement(t *testing.T) {
	for _, h := range []trailerMethods{new(sluice.RequestHeader), responseWithoutType()} {
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { h.Set("A", "1"); h.Add("A", "2"); h.Set("B", "3"); _ = h.SetTrailer("a") }, "Trailer=A B=3 | A: 1, A: 2"},
			{func() { h.Add("Trailer", "b, A, b") }, "Trailer=A, B | A: 1, A: 2, B: 3"},
			{func() { h.Set("C", "4"); h.Set("Trailer", "B, C") }, "Trailer=B, C A=1 A=2 | B: 3, C: 4"},
			{func() { h.Add("A", "5"); h.Add("Trailer", "Host") }, "Trailer=B, C A=1 A=2 A=5 | B: 3, C: 4"},
			{func() { h.Set("Trailer", "Content-Length") }, "A=1 A=2 A=5 B=3 C=4 | "},
			{func() { h.Set("Trailer", "Host, C, TE") }, "Trailer=C A=1 A=2 A=5 B=3 | C: 4"},
			{func() { _ = h.SetTrailerBytes(h.Peek("Trailer")) }, "Trailer=C A=1 A=2 A=5 B=3 | C: 4"},
			{func() { _ = h.AddTrailer("D, A"); _ = h.SetTrailerBytes(h.Peek("Trailer")[3:]) }, "Trailer=D, A B=3 C=4 | A: 1, A: 2, A: 5"},
			{func() { h.Del("Trailer") }, "B=3 C=4 A=1 A=2 A=5 | "},
			{func() { _ = h.SetTrailer("D, B"); h.Add("D", "6"); h.Add("B", "7") }, "Trailer=D, B C=4 A=1 A=2 A=5 | B: 3, D: 6, B: 7"},
			{func() { _ = h.SetTrailer("C, B, A, D") }, "Trailer=B, D, C, A | B: 3, D: 6, B: 7, C: 4, A: 1, A: 2, A: 5"},
			{func() { _ = h.SetTrailer("A") }, "Trailer=A B=3 D=6 B=7 C=4 | A: 1, A: 2, A: 5"},
		} {
			step.change()
			if got := sections(h); got != step.want {
				t.Errorf("%T\ngot  %s\nwant %s", h, got, step.want)
			}
		}
		if err := h.SetTrailer("host"); !errors.Is(err, sluice.ErrBadTrailer) {
			t.Errorf("a forbidden name: %v", err)
		}
	}
}

// TestManyReceivedTrailers: those that find no room in the announcement are
// trailer fields all the same.
func TestManyReceivedTrailers(t *testing.T) {
	var section strings.Builder
	for i := range 2 * message.MaxAnnounced {
		fmt.Fprintf(&section, "N%d: v\r\n", i)
	}
	var h sluice.RequestHeader
	if err := h.ReadTrailer(harness.Reader(section.String() + "\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(h.Peek("Trailer")), ",") + 1; got != message.MaxAnnounced {
		t.Errorf("%d names announced", got)
	}
	for range 2 {
		if got := string(h.TrailerHeader()); got != section.String()+"\r\n" || h.Len() > 1 {
			t.Errorf("%d fields, trailer section %q", h.Len(), got)
		}
		h.Del("Trailer")
	}
}

// TestCopiesHaveTheirOwnTrailers: CopyTo takes over what was received as such.
func TestCopiesHaveTheirOwnTrailers(t *testing.T) {
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	if err := h.ReadTrailer(harness.Reader("X-Sent: 1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var dst sluice.RequestHeader
	h.CopyTo(&dst)
	h.Reset()
	dst.Del("Trailer")
	if got, want := sections(&dst), "Host=h | X-Sent: 1"; got != want {
		t.Errorf("copy: %s, want %s", got, want)
	}
	h.CopyTo(&dst)
	dst.SetTrailer("X-Sent")
	dst.Set("X-Sent", "2")
	dst.Del("Trailer")
	if got, want := sections(&dst), "X-Sent=2 | "; got != want {
		t.Errorf("copy of an empty header: %s, want %s", got, want)
	}
}

// trailerModel is what a header is expected to have, by names.
type trailerModel struct {
	announced     []string
	head, trailer map[string][]string
	received      map[string]bool
}

func (m *trailerModel) set(name, value string, adds bool) {
	section := m.head
	if slices.Contains(m.announced, name) {
		section = m.trailer
		if !adds {
			m.head[name] = nil
		}
	}
	if adds || len(section[name]) == 0 {
		section[name] = append(section[name], value)
	} else {
		section[name][0] = value
	}
}

func (m *trailerModel) del(name string) {
	m.head[name], m.trailer[name], m.received[name] = nil, nil, false
}

func (m *trailerModel) receive(name, value string) {
	m.trailer[name], m.received[name] = append(m.trailer[name], value), true
	if !slices.Contains(m.announced, name) {
		m.announced = append(m.announced, name)
	}
}

func (m *trailerModel) announce(names []string) {
	old := m.announced
	m.announced = nil
	for _, isOld := range []bool{true, false} { // those that stay come first
		for _, name := range names {
			if slices.Contains(old, name) == isOld {
				m.announced = append(m.announced, name)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(old, name) && len(m.trailer[name]) == 0 {
			m.trailer[name], m.head[name] = m.head[name], nil
		}
	}
	for _, name := range old {
		if !slices.Contains(names, name) && !m.received[name] {
			m.head[name], m.trailer[name] = append(m.head[name], m.trailer[name]...), nil
		}
	}
}

// FuzzTrailers makes a header do what the bytes say, and compares it with a
// model. Nothing that was received may get into the head.
func FuzzTrailers(f *testing.F) {
	random := rand.NewChaCha8([32]byte{1})
	for range 100 {
		script := make([]byte, 60)
		random.Read(script)
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		script = script[:min(len(script), 100)]
		names := []string{"A", "B-C", "X-Long-Name", "Referer", "Vary"}
		h := new(sluice.RequestHeader)
		m := trailerModel{head: map[string][]string{}, trailer: map[string][]string{}, received: map[string]bool{}}
		for i, op := range script {
			name, value := names[int(op)/10%len(names)], fmt.Sprint("v", i)
			switch op % 10 {
			case 0, 1:
				h.Set(name, value)
				m.set(name, value, false)
			case 2, 3:
				h.Add(name, value)
				m.set(name, value, true)
			case 4:
				h.Del(name)
				m.del(name)
			case 5:
				h.Add("Trailer", "host,"+name)
				if !slices.Contains(m.announced, name) {
					m.announce(append(slices.Clone(m.announced), name))
				}
			case 6:
				list := names[int(op)/10%len(names):]
				h.Set("Trailer", strings.Join(list, ", "))
				m.announce(list)
			case 7:
				h.Del("Trailer")
				m.announce(nil)
			case 8:
				value = "received" + value
				if err := h.ReadTrailer(bufio.NewReader(strings.NewReader(name + ": " + value + "\r\nTE: x\r\n\r\n"))); err != nil {
					t.Fatal(err)
				}
				m.receive(name, value)
			case 9:
				dst := new(sluice.RequestHeader)
				dst.AddTrailer("Lost, " + name)
				h.CopyTo(dst)
				h = dst
			}
			m.check(t, h, names)
		}
	})
}

func (m *trailerModel) check(t *testing.T, h *sluice.RequestHeader, names []string) {
	t.Helper()
	head, section := map[string][]string{}, map[string][]string{}
	for key, value := range h.All() {
		head[string(key)] = append(head[string(key)], string(value))
	}
	for line := range strings.SplitSeq(strings.TrimRight(string(h.TrailerHeader()), "\r\n"), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		section[name] = append(section[name], value)
	}
	for _, name := range names {
		all := slices.Concat(m.head[name], m.trailer[name])
		if !slices.Equal(head[name], m.head[name]) || !slices.Equal(section[name], m.trailer[name]) || fmt.Sprintf("%s", h.PeekAll(name)) != fmt.Sprint(all) {
			t.Fatalf("%s: head %q, trailer section %q, want %q and %q", name, head[name], section[name], m.head[name], m.trailer[name])
		}
		if strings.Contains(strings.Join(head[name], " "), "received") {
			t.Fatalf("%s: a received trailer field is in the head: %q", name, head[name])
		}
	}
	if got, want := string(h.Peek("Trailer")), strings.Join(m.announced, ", "); got != want {
		t.Fatalf("announced %s, want %s", got, want)
	}
}
