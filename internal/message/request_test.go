package message

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// readRequest returns the header of a request that was read.
func readRequest(t testing.TB, head string) *RequestHeader {
	t.Helper()
	h := new(RequestHeader)
	if err := h.Read(bufio.NewReader(strings.NewReader(head)), h1.DefaultLimits); err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	return h
}

// TestRequestLine: what is not set has a default, and the target never ends its line (RFC 9112
// section 3).
func TestRequestLine(t *testing.T) {
	for _, test := range []struct{ method, target, wantMethod, wantTarget, written string }{
		{"", "", "GET", "/", "GET / HTTP/1.1"},
		{"PUT", "/a?b", "PUT", "/a?b", "PUT /a?b HTTP/1.1"},
		{"put", "*", "put", "*", "put * HTTP/1.1"},
		{"P UT", "?b", "GET", "/?b", "GET /?b HTTP/1.1"},
		{"PUT\r\n", "/a b\r\nX", "GET", "/a b\r\nX", "GET /a%20b%0D%0AX HTTP/1.1"},
		{"PUT", "/a#b", "PUT", "/a#b", "PUT /a HTTP/1.1"},
		{"PUT", "#b", "PUT", "#b", "PUT / HTTP/1.1"},
	} {
		set, received := RequestHeader{}, readRequest(t, "POST /earlier HTTP/1.1\r\nHost: h\r\n\r\n")
		for name, h := range map[string]*RequestHeader{"new": &set, "received": received} {
			h.SetMethod([]byte("DELETE"))
			h.SetTarget([]byte("/earlier/still"))
			h.SetMethod([]byte(test.method))
			h.SetTarget([]byte(test.target))
			if string(h.Method()) != test.wantMethod || !h.IsMethod(test.wantMethod) || h.IsMethod(strings.ToLower(test.wantMethod)+"x") {
				t.Errorf("%s %q: %q", name, test.method, h.Method())
			}
			if string(h.Target()) != test.wantTarget || h.IsTargetReceived() {
				t.Errorf("%s %q: %q", name, test.target, h.Target())
			}
			if got, _, _ := strings.Cut(string(h.Head()), "\r\n"); got != test.written {
				t.Errorf("%s: %q, want %q", name, got, test.written)
			}
			h.Reset()
			if string(h.Method())+string(h.Target()) != "GET/" {
				t.Errorf("%s: after Reset %q %q", name, h.Method(), h.Target())
			}
		}
	}
}

// TestOwnStartLine: who writes to the results changes no other message.
func TestOwnStartLine(t *testing.T) {
	for _, h := range []*RequestHeader{{}, readRequest(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")} {
		copy(h.OwnMethod(), "XXX")
		copy(h.OwnTarget(), "X")
		var other RequestHeader
		if got := string(other.Method()) + string(other.Target()); got != "GET/" {
			t.Errorf("another message has %s", got)
		}
		if got := string(h.OwnMethod()) + string(h.OwnTarget()); got != "XXXX" {
			t.Errorf("the message has %s", got)
		}
	}
}

// TestSetFitTarget: a target that is percent-encoded is written unchanged.
func TestSetFitTarget(t *testing.T) {
	h := readRequest(t, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
	h.SetFitTarget(append(h.TargetRoom(), "/a#%23"...))
	if got, want := string(h.AppendHead(nil, Framing{Length: -2})), "GET /a#%23 HTTP/1.1\r\nHost: h\r\n\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var copied RequestHeader
	h.CopyTo(&copied)
	if got, _, _ := strings.Cut(string(copied.Head()), "\r\n"); got != "GET /a#%23 HTTP/1.1" {
		t.Errorf("the copy: %q", got)
	}
	h.SetTarget([]byte("/a#%23"))
	if got, _, _ := strings.Cut(string(h.Head()), "\r\n"); got != "GET /a HTTP/1.1" {
		t.Errorf("set again: %q", got)
	}
}

// TestLendOrigin: what is lent stays when the header is used for another request.
func TestLendOrigin(t *testing.T) {
	h := readRequest(t, "GET /lent?q HTTP/1.1\r\nHost: Lent\r\n\r\n")
	for name, end := range map[string]func(){
		"Reset":        h.Reset,
		"ResetMessage": h.ResetMessage,
		"CopyTo":       func() { new(RequestHeader).CopyTo(h) },
	} {
		_ = h.Read(bufio.NewReader(strings.NewReader("GET /lent?q HTTP/1.1\r\nHost: Lent\r\n\r\n")), h1.DefaultLimits)
		host, target, ok := h.LendOrigin()
		if !ok {
			t.Fatalf("%s: nothing is lent", name)
		}
		end()
		_ = h.Read(bufio.NewReader(strings.NewReader("PUT /another HTTP/1.1\r\nHost: another\r\n\r\n")), h1.DefaultLimits)
		if string(host) != "Lent" || string(target) != "/lent?q" {
			t.Errorf("after %s: %q, %q", name, host, target)
		}
	}
	_, target, _ := h.LendOrigin()
	h.TakeBack()
	_ = h.Read(bufio.NewReader(strings.NewReader("PUT /overwrite HTTP/1.1\r\nHost: overwrite\r\n\r\n")), h1.DefaultLimits)
	if string(target) == "/another" {
		t.Error("the memory is not used again after TakeBack")
	}
	for _, head := range []string{"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n"} {
		if _, _, ok := readRequest(t, head).LendOrigin(); ok {
			t.Errorf("%q: the origin is lent", head)
		}
	}
	if host, target, ok := readRequest(t, "GET /p HTTP/1.0\r\n\r\n").LendOrigin(); !ok || host != nil || string(target) != "/p" {
		t.Errorf("without Host: %q, %q, %v", host, target, ok)
	}
	changed := readRequest(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	changed.Put("Host", []byte("set-since"), Sets)
	if _, _, ok := changed.LendOrigin(); ok {
		t.Error("a host that was set is lent")
	}
	if _, _, ok := new(RequestHeader).LendOrigin(); ok {
		t.Error("a header that was not read lends its origin")
	}
}

// TestRequestCopyTo: the copy shares no memory, and has nothing of what it was before.
func TestRequestCopyTo(t *testing.T) {
	h := readRequest(t, "PUT /p HTTP/1.0\r\nHost: h\r\nTrailer: X-T\r\nCookie: a=1\r\nConnection: close\r\nContent-Length: 7\r\n\r\n")
	h.Put("X-T", []byte("t"), Sets)
	want := string(h.Head())
	var dst RequestHeader
	dst.SetMethod([]byte("DELETE"))
	_ = dst.Announce([]byte("X-Old"))
	dst.SetProtocol([]byte("HTTP/3"))
	dst.Put("X-Old", []byte("old"), Sets)
	h.CopyTo(&dst)
	h.Put("Host", []byte("changed"), Sets)
	h.Put("X-T", []byte("changed"), Sets)
	h.SetMethod([]byte("changed"))
	if got := string(dst.Head()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(dst.TrailerSection()); got != "X-T: t\r\n\r\n" || string(dst.Protocol()) != "HTTP/1.0" {
		t.Errorf("trailers %q, %s", got, dst.Protocol())
	}
	h.Reset()
	new(RequestHeader).CopyTo(&dst)
	if got := string(dst.Head()) + string(dst.TrailerSection()); got != "GET / HTTP/1.1\r\n\r\n\r\n" {
		t.Errorf("a copy of nothing: %q", got)
	}
}

// TestRequestsCopiedByAssignmentAreApart: a change of one is not seen in the other. After Moved
// the copy has the memory.
func TestRequestsCopiedByAssignmentAreApart(t *testing.T) {
	for name, change := range map[string]func(h *RequestHeader){
		"SetMethod": func(h *RequestHeader) { h.SetMethod([]byte("XXX")) },
		"OwnMethod": func(h *RequestHeader) { copy(h.OwnMethod(), "X") },
		"SetTarget": func(h *RequestHeader) { h.SetTarget([]byte("/x")) },
		"OwnTarget": func(h *RequestHeader) { copy(h.OwnTarget(), "*") },
		"Put":       func(h *RequestHeader) { h.Put("A", []byte("x"), Sets) },
		"trailer":   func(h *RequestHeader) { h.Put("T", []byte("x"), Sets) },
		"Announce":  func(h *RequestHeader) { _ = h.Announce([]byte("U")) },
		"Del":       func(h *RequestHeader) { h.Del([]byte("T")) },
		"Reset":     func(h *RequestHeader) { h.Reset(); h.Put("A", []byte("x"), Sets) },
	} {
		var h RequestHeader
		h.SetMethod([]byte("PUT"))
		h.SetTarget([]byte("/p"))
		h.Put("A", []byte("a"), Sets)
		_ = h.Announce([]byte("T"))
		h.Put("T", []byte("t"), Sets)
		const want = "PUT /p HTTP/1.1\r\nA: a\r\nTrailer: T\r\n\r\n" + "T: t\r\n\r\n"
		copied := h
		change(&copied)
		if got := string(h.Head()) + string(h.TrailerSection()); got != want {
			t.Errorf("%s of a copy changes the original to %q", name, got)
		}
		if got := string(copied.Head()) + string(copied.TrailerSection()); got == want {
			t.Errorf("%s does not change the copy", name)
		}
		moved := h
		moved.Moved()
		if got := string(moved.Head()) + string(moved.TrailerSection()); got != want {
			t.Errorf("%s: moved: %q", name, got)
		}
	}
}

// TestRequestLength: what is known of a request's body (RFC 9112 section 6.3).
func TestRequestLength(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(h *RequestHeader)
		length     int
	}{
		{"nothing", "", func(*RequestHeader) {}, 0},
		{"5", "Content-Type: application/octet-stream\r\nContent-Length: 5\r\n", func(h *RequestHeader) { h.SetContentLength(5) }, 5},
		{"negative", "Transfer-Encoding: chunked\r\n", func(h *RequestHeader) { h.SetContentLength(5); h.SetContentLength(-7) }, -1},
		{"chunked, HTTP/1.0", "", func(h *RequestHeader) { h.SetContentLength(-1); h.IsHTTP10 = true }, -1},
		{"chunked and empty", "Content-Length: 0\r\n", func(h *RequestHeader) { h.SetContentLength(-1); h.SettleChunked(0) }, 0},
		{"chunked and not empty", "Transfer-Encoding: chunked\r\n", func(h *RequestHeader) { h.SetContentLength(-1); h.SettleChunked(1) }, -1},
		{"chunked with trailers", "Transfer-Encoding: chunked\r\nTrailer: T\r\n", func(h *RequestHeader) {
			_ = h.Announce([]byte("T"))
			h.SetContentLength(-1)
			h.SettleChunked(0)
		}, -1},
		{"none, GET", "", func(h *RequestHeader) { h.ContentLength = -2; h.SettleLength() }, -2},
		{"none, HEAD", "", func(h *RequestHeader) { h.SetMethod([]byte("HEAD")); h.ContentLength = -2; h.SettleLength() }, -2},
		{"none, POST", "Content-Length: 0\r\n", func(h *RequestHeader) { h.SetMethod([]byte("POST")); h.ContentLength = -2; h.SettleLength() }, 0},
		{"chunked, POST", "Transfer-Encoding: chunked\r\n", func(h *RequestHeader) { h.SetMethod([]byte("POST")); h.SetContentLength(-1); h.SettleLength() }, -1},
	} {
		var h RequestHeader
		test.change(&h)
		_, got, _ := strings.Cut(string(h.Head()), "\r\n")
		got = strings.TrimSuffix(got, "\r\n")
		if h.IsHTTP10 {
			got = strings.TrimSuffix(got, "Connection: close\r\n")
		}
		if got != test.want || h.ContentLength != test.length {
			t.Errorf("%s: %q, %d, want %q, %d", test.name, got, h.ContentLength, test.want, test.length)
		}
	}
}

// TestSetByteRange: RFC 9110 section 14.1.2.
func TestSetByteRange(t *testing.T) {
	for want, c := range map[string][2]int{"bytes=0-0": {0, 0}, "bytes=5-9": {5, 9}, "bytes=5-": {5, -1}, "bytes=-5": {-5, 0}, "bytes=-6": {-6, -1}} {
		var h RequestHeader
		h.SetByteRange(1, 2)
		h.SetByteRange(c[0], c[1])
		if got := string(h.AppendHead(nil, Framing{Length: -2})); got != "GET / HTTP/1.1\r\nRange: "+want+"\r\n\r\n" {
			t.Errorf("%v: %q, want %q", c, got, want)
		}
	}
}

// TestAccepts: a weight of 0 means "not acceptable" (RFC 9110 section 12.4.2).
func TestAccepts(t *testing.T) {
	for list, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip": true, "br": false, "xgzip": false, "gzip;q=0": false, "gzip ; Q=0": false, "gzip;q=0.": false,
		"gzip;q=0.000": false, "gzip;q=0.001": true, "gzip;q=1": true, "gzip;q=": true, "gzip;x=y;q=0": false, "gzip;x=0": true, "gzip;q=0, gzip;q=1": true,
		"*": false, "br;q=0,\tgzip": true,
	} {
		for _, second := range []string{"", "br"} {
			var h RequestHeader
			h.Put("Accept-Encoding", []byte(second), Adds)
			h.Put("Accept-Encoding", []byte(list), Adds)
			if got := h.Accepts([]byte("gzip")); got != want {
				t.Errorf("%q, %q: %v", second, list, got)
			}
			if h.Accepts(nil) {
				t.Errorf("%q accepts a coding without a name", list)
			}
		}
	}
}

// TestVisitRequest: fields that are treated specially come first.
func TestVisitRequest(t *testing.T) {
	var h RequestHeader
	for _, f := range []string{"X-A: 1", "Cookie: a=1", "Connection: close", "User-Agent: u", "Content-Type: t", "Host: h", "Trailer: T", "X-B: ", "T: trailer", "cookie: b=2"} {
		name, value, _ := strings.Cut(f, ": ")
		h.Put(name, []byte(value), Adds)
	}
	h.SetContentLength(3)
	const want = "Host: h|Content-Length: 3|Content-Type: t|User-Agent: u|Trailer: T|Cookie: a=1; b=2|X-A: 1|X-B: |Connection: close"
	checkVisit(t, "length", want, h.Visit, h.PeekKeys, h.Len)
	h.SetContentLength(-1)
	const chunked = "Host: h|Content-Type: t|User-Agent: u|Trailer: T|Cookie: a=1; b=2|Transfer-Encoding: chunked|X-A: 1|X-B: |Connection: close"
	checkVisit(t, "chunked", chunked, h.Visit, h.PeekKeys, h.Len)
	h.SetRaw(true)
	const raw = "X-A: 1|Cookie: a=1; b=2|User-Agent: u|Content-Type: t|Host: h|X-B: |Transfer-Encoding: chunked|Trailer: T|Connection: close"
	checkVisit(t, "raw", raw, h.Visit, h.PeekKeys, h.Len)
}

// checkVisit checks all fields, their names and their number, and that Visit stops at each.
func checkVisit(t *testing.T, name, want string, visit func(yield func(key, value []byte) bool) bool, keys func() [][]byte, length func() int) {
	t.Helper()
	if got := visited(visit); got != want {
		t.Errorf("%s:\n%s, want\n%s", name, got, want)
	}
	fields := strings.Split(want, "|")
	if length() != len(fields) {
		t.Errorf("%s: Len is %d, want %d", name, length(), len(fields))
	}
	for i, key := range keys() {
		if wantKey, _, _ := strings.Cut(fields[i], ": "); string(key) != wantKey {
			t.Errorf("%s: key %d is %q, want %q", name, i, key, wantKey)
		}
	}
	for stop := range fields {
		n := 0
		if visit(func(_, _ []byte) bool { n++; return n <= stop }) || n != stop+1 {
			t.Errorf("%s: Visit goes on to %d after %d", name, n, stop+1)
		}
	}
}

// TestPeekKeysOwnsNames: who writes to the names changes no other message.
func TestPeekKeysOwnsNames(t *testing.T) {
	var h RequestHeader
	h.Put("Host", []byte("h"), Sets)
	copy(h.PeekKeys()[0], "XXXX")
	if got := fmt.Sprintf("%s", h.PeekKeys()); got != "[Host]" || string(field.Host.Canonical()) != "Host" {
		t.Errorf("the name is now %s", got)
	}
}

// TestRawFields: nil if no head was read, empty if it had no field.
func TestRawFields(t *testing.T) {
	for head, want := range map[string]string{
		"GET / HTTP/1.1\r\nhost:h\r\nX-A:  1 \r\n\r\n": "host:h\r\nX-A:  1 \r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n":                       "",
	} {
		h := readRequest(t, head)
		if got := h.RawFields(); string(got) != want || got == nil {
			t.Errorf("%q: %q, want %q", head, got, want)
		}
	}
	if got := new(RequestHeader).RawFields(); got != nil {
		t.Errorf("nothing was read: %q", got)
	}
}

// TestVisitReceived: names are normalised unless they are kept.
func TestVisitReceived(t *testing.T) {
	h := new(RequestHeader)
	for keeps, want := range map[bool]string{false: "Host: h|X-A: 1|X-A: 2", true: "host: h|x-a: 1|X-A: 2"} {
		h.SetKeepNames(keeps)
		if err := h.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nhost:h\r\nx-a:  1 \r\nX-A: 2\r\n\r\n")), h1.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		visit := func(yield func(key, value []byte) bool) bool { h.VisitReceived(yield); return true }
		if got := visited(visit); got != want {
			t.Errorf("names are kept: %v: %s, want %s", keeps, got, want)
		}
		n := 0
		h.VisitReceived(func(_, _ []byte) bool { n++; return false })
		if n != 1 {
			t.Errorf("%d fields are yielded", n)
		}
	}
}

// TestConnect: the protocol of an extended CONNECT is a part of what was received.
func TestConnect(t *testing.T) {
	h := readRequest(t, "GET /websocket HTTP/1.1\r\nHost: h\r\n\r\n")
	if h.SetConnect(h1.Span{Start: 5, End: 14}); string(h.Connect()) != "websocket" {
		t.Errorf("%q", h.Connect())
	}
	if h.ResetMessage(); len(h.Connect()) > 0 {
		t.Errorf("%q remains", h.Connect())
	}
}

// TestRequestAllocations: a header that is used again needs no new memory.
func TestRequestAllocations(t *testing.T) {
	var h RequestHeader
	var dst []byte
	target, host, cookie := []byte("/p?q"), []byte("h"), []byte("a")
	if n := testing.AllocsPerRun(100, func() {
		h.Reset()
		h.SetTarget(target)
		h.Put("Host", host, Sets)
		h.Put("X-A", host, Adds)
		h.SetCookie(cookie, host)
		_ = h.Cookie(cookie)
		_ = h.Peek(host)
		dst = h.AppendHead(dst[:0], Framing{Length: 5})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHasOrigin: nothing of what was received has been replaced.
func TestHasOrigin(t *testing.T) {
	for text, want := range map[string]bool{
		"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n":      true,
		"GET / HTTP/1.0\r\n\r\n":                    false,
		"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n": false,
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n":     false,
	} {
		h := readRequest(t, text)
		if h.HasOrigin() != want {
			t.Errorf("%q: %v", text, !want)
		}
		h.SetKnown(field.Host, []byte("other"))
		if h.HasOrigin() {
			t.Errorf("%q: with another Host", text)
		}
	}
	h := readRequest(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	h.SetTarget([]byte("/b"))
	if new(RequestHeader).HasOrigin() || h.HasOrigin() {
		t.Error("a target that was set is not one that was received")
	}
}
