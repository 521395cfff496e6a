package message_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestRequestPeek(t *testing.T) {
	h := harness.ReadRequest(t, "POST / HTTP/1.1\r\nHost: h\r\nx-a: 1\r\nCookie: a=b\r\nX-A: 2\r\nContent-Length: 3\r\nReferer: r\r\nCookie: c=d\r\n\r\n")
	for key, want := range map[string]string{
		"host": "h", "HOST": "h", "x-a": "1", "Cookie": "a=b; c=d", "content-length": "3", "Referer": "r",
	} {
		if got := string(h.Peek(key)); got != want {
			t.Errorf("Peek(%s) = %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{"Nope", "", "Content-Type", "Trailer", "Transfer-Encoding", "Connection", "Set-Cookie"} {
		if got := h.Peek(key); got != nil {
			t.Errorf("Peek(%s) = %q", key, got)
		}
		if got := h.PeekAll(key); len(got) != 0 {
			t.Errorf("PeekAll(%s) = %q", key, got)
		}
	}
	if got := fmt.Sprintf("%q", h.PeekAll("X-a")); got != `["1" "2"]` {
		t.Errorf("PeekAll: %s", got)
	}
	if got := fmt.Sprintf("%q", h.PeekAll("cookie")); got != `["a=b; c=d"]` {
		t.Errorf("PeekAll: %s", got)
	}
	if got, want := fmt.Sprintf("%s", h.PeekKeys()), "[Host Content-Length Cookie X-A X-A Referer]"; got != want || h.Len() != 6 {
		t.Errorf("PeekKeys: %s, want %s; Len %d", got, want, h.Len())
	}
	if got := h.Peek("x-empty"); got != nil {
		t.Error("absent is not nil")
	}
	h.Set("X-Empty", "")
	if got := h.Peek("x-empty"); got == nil || len(got) != 0 {
		t.Error("empty is nil")
	}
}

func TestVisitStops(t *testing.T) {
	var q sluice.RequestHeader
	var r sluice.ResponseHeader
	q.SetHost("h")
	q.SetCookie("a", "b")
	q.AddTrailer("t")
	for _, set := range []func(k, v string){q.Set, r.Set} {
		set("x", "1")
		set("y", "2")
		set("t", "3")
		set("connection", "close")
	}
	r.Add("set-cookie", "a=b")
	r.Add("set-cookie", "c=d")
	for n := 1; n <= q.Len(); n++ {
		i := 0
		for range q.All() {
			if i++; i == n {
				break
			}
		}
	}
	raw := new(sluice.RequestHeader)
	raw.DisableSpecialHeader()
	raw.AddTrailer("t")
	raw.Set("x", "1")
	raw.SetContentLength(5)
	raw.SetConnectionClose()
	for n := 1; n <= raw.Len(); n++ {
		i := 0
		for range raw.All() {
			if i++; i == n {
				break
			}
		}
	}
	for n := 1; n <= r.Len(); n++ {
		i := 0
		for range r.All() {
			if i++; i == n {
				break
			}
		}
	}
	for range r.Cookies() {
		break
	}
	for range q.Cookies() {
		break
	}
	for range q.Trailers() {
		break
	}
	if q.Len() != 6 || r.Len() != 7 {
		t.Errorf("%d and %d fields: %s, %s", q.Len(), r.Len(), fieldsOf(q.All()), fieldsOf(r.All()))
	}
}

// The address of a context without a connection can be written to, too.
func TestAddressesShareNothing(t *testing.T) {
	var ctx sluice.RequestCtx
	copy(ctx.RemoteIP(), "0123456789012345")
	copy(ctx.LocalIP(), "0123456789012345")
	copy(ctx.RemoteAddr().(*net.TCPAddr).IP, "0123456789012345")
	var local sluice.RequestCtx
	local.Init(&sluice.Request{}, &net.UnixAddr{Name: "s"}, nil)
	if got := local.RemoteIP(); !got.Equal(net.IPv4zero) {
		t.Errorf("RemoteIP is %v", got)
	}
	if got := ctx.RemoteIP(); !got.Equal(net.IPv4(0, 0, 0, 0)) || !net.IPv4zero.Equal(net.IPv4(0, 0, 0, 0)) {
		t.Fatalf("shared: %v", got)
	}
}

// TestPeekAllOfEmptyFields: an empty field has a value, but for those that a
// message of its type writes at a place of their own.
func TestPeekAllOfEmptyFields(t *testing.T) {
	for _, test := range []struct {
		h interface {
			Set(key, value string)
			PeekAll(key string) [][]byte
		}
		there, absent []string
	}{
		{new(sluice.RequestHeader), []string{"X", "Server", "Content-Encoding", "Date"}, []string{"Host", "User-Agent", "Content-Type"}},
		{new(sluice.ResponseHeader), []string{"X", "Host", "User-Agent"}, []string{"Server", "Content-Encoding", "Date"}},
	} {
		for _, name := range append(test.there, test.absent...) {
			if got := test.h.PeekAll(name); len(got) != 0 {
				t.Errorf("%T, not set: PeekAll(%s) = %q", test.h, name, got)
			}
			test.h.Set(name, "")
		}
		for _, name := range test.there {
			if got := test.h.PeekAll(name); len(got) != 1 || len(got[0]) != 0 {
				t.Errorf("%T: PeekAll(%s) = %q", test.h, name, got)
			}
		}
		for _, name := range test.absent {
			if got := test.h.PeekAll(name); len(got) != 0 {
				t.Errorf("%T: PeekAll(%s) = %q", test.h, name, got)
			}
		}
	}
}

// TestEmptyFieldsAreThere: a field without a value that is the only one of a new header is there, and
// so it is in a copy.
func TestEmptyFieldsAreThere(t *testing.T) {
	for _, name := range []string{
		"Accept", "Age", "Cache-Control", "Connection", "Content-Encoding", "Content-Type", "ETag", "Host", "Location",
		"Range", "Server", "User-Agent", "Vary", "X-Unknown",
	} {
		var request, requestCopy sluice.RequestHeader
		request.Set(name, "")
		request.CopyTo(&requestCopy)
		if request.Peek(name) == nil || requestCopy.Peek(name) == nil {
			t.Errorf("%s of a request: nil", name)
		}
		var response, responseCopy sluice.ResponseHeader
		response.Set(name, "")
		response.CopyTo(&responseCopy)
		if !response.IsSet(name) || !responseCopy.IsSet(name) || response.Peek(name) == nil || responseCopy.Peek(name) == nil {
			t.Errorf("%s of a response: it is not there", name)
		}
	}
}
