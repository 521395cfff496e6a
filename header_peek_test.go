package sluice

import (
	"fmt"
	"net"
	"reflect"
	"testing"
)

func TestRequestPeek(t *testing.T) {
	h := readRequest(t, "POST / HTTP/1.1\r\nHost: h\r\nx-a: 1\r\nCookie: a=b\r\nX-A: 2\r\nContent-Length: 3\r\nReferer: r\r\nCookie: c=d\r\n\r\n")
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

func TestResponsePeek(t *testing.T) {
	var h ResponseHeader
	h.m.DefaultServer, h.m.ShowsServer = []byte("default"), true
	if got := fmt.Sprintf("%q %q", h.Peek("server"), h.PeekAll("Server")); got != `"default" ["default"]` {
		t.Errorf("defaults: %s", got)
	}
	if got := fmt.Sprintf("%q %q", h.Peek("content-type"), h.PeekAll("Content-Type")); got != `"text/plain; charset=utf-8" ["text/plain; charset=utf-8"]` {
		t.Errorf("defaults: %s", got)
	}
	h.SetServer("mine")
	h.Add("Set-Cookie", "a=b; path=/")
	h.Add("Set-Cookie", "c=d")
	h.SetContentLength(5)
	h.SetConnectionClose()
	if got, want := fieldsOf(h.All()), "Content-Length=5 Content-Type=text/plain; charset=utf-8 Server=mine Set-Cookie=a=b; path=/ Set-Cookie=c=d Connection=close"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(h.Peek("set-cookie")); got != "a=b; path=/; c=d" {
		t.Errorf("Set-Cookie: %q", got)
	}
	h.SetNoDefaultContentType(true)
	if h.Peek("Content-Type") != nil || h.ContentType() != nil {
		t.Error("there is a default type")
	}
	h.SetServer("")
	if got := string(h.Server()); got != "" {
		t.Errorf("Server = %q", got)
	}
}

func TestVisitStops(t *testing.T) {
	var q RequestHeader
	var r ResponseHeader
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
	raw := new(RequestHeader)
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

// TestGettersShareNothing writes into all that getters return: no other message
// may see it.
func TestGettersShareNothing(t *testing.T) {
	newRequest := func() *RequestHeader {
		h := &RequestHeader{}
		h.SetConnectionClose()
		h.SetContentLength(-1)
		h.SetReferer("r")
		h.SetCookie("a", "b")
		_ = h.SetTrailer("Foo, User-Agent")
		return h
	}
	newResponse := func() *ResponseHeader {
		h := &ResponseHeader{}
		h.SetConnectionClose()
		h.SetContentLength(-1)
		h.SetProtocol([]byte("HTTP/1.0"))
		_ = h.SetTrailer("Foo, Last-Modified")
		return h
	}
	name := []byte("shared")
	shared := string(name)
	for _, c := range []struct {
		of    string
		fresh func() headerGetters
	}{
		{"zero request", func() headerGetters { return &RequestHeader{} }},
		{"request", func() headerGetters { return newRequest() }},
		{"zero response", func() headerGetters { h := &ResponseHeader{}; h.m.DefaultServer = name; return h }},
		{"response", func() headerGetters { return newResponse() }},
	} {
		describe := func() string {
			h := c.fresh()
			wire := ""
			switch h := h.(type) {
			case *RequestHeader:
				wire = h.String()
			case *ResponseHeader:
				wire = undated(h)
			}
			return fmt.Sprintf("%q %s %s %s", wire, h.Protocol(), h.PeekKeys(), h.TrailerHeader())
		}
		want := describe()
		for method, result := range getterResults(c.fresh()) {
			for _, b := range result {
				for i := range b {
					b[i] ^= 0x20
				}
			}
			if describe() != want || string(name) != shared {
				t.Fatalf("%s: what %s returned is shared", c.of, method)
			}
		}
	}
}

// headerGetters is what TestGettersShareNothing looks at itself.
type headerGetters interface {
	Protocol() []byte
	TrailerHeader() []byte
	PeekKeys() [][]byte
}

// getterResults calls every method of h that returns bytes, with the names of
// fields that are state or have defaults where it takes one.
func getterResults(h any) map[string][][]byte {
	results := map[string][][]byte{}
	v := reflect.ValueOf(h)
	for i := range v.NumMethod() {
		method, name := v.Method(i), v.Type().Method(i).Name
		keys := []string{""}
		arguments := func(string) []reflect.Value { return nil }
		if method.Type().NumIn() == 1 && method.Type().In(0).Kind() == reflect.String {
			keys = []string{"Connection", "Transfer-Encoding", "Content-Type", "Server", "Trailer", "Content-Length", "Host"}
			arguments = func(key string) []reflect.Value { return []reflect.Value{reflect.ValueOf(key)} }
		} else if method.Type().NumIn() != 0 {
			continue
		}
		if method.Type().NumOut() != 1 {
			continue
		}
		switch method.Type().Out(0) {
		case reflect.TypeFor[[]byte]():
			for _, key := range keys {
				results[name+"("+key+")"] = [][]byte{method.Call(arguments(key))[0].Bytes()}
			}
		case reflect.TypeFor[[][]byte]():
			for _, key := range keys {
				results[name+"("+key+")"] = method.Call(arguments(key))[0].Interface().([][]byte)
			}
		}
	}
	return results
}

// The address of a context without a connection can be written to, too.
func TestAddressesShareNothing(t *testing.T) {
	var ctx RequestCtx
	copy(ctx.RemoteIP(), "0123456789012345")
	copy(ctx.LocalIP(), "0123456789012345")
	copy(ctx.RemoteAddr().(*net.TCPAddr).IP, "0123456789012345")
	var local RequestCtx
	local.Init(&Request{}, &net.UnixAddr{Name: "s"}, nil)
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
		{new(RequestHeader), []string{"X", "Server", "Content-Encoding", "Date"}, []string{"Host", "User-Agent", "Content-Type"}},
		{new(ResponseHeader), []string{"X", "Host", "User-Agent"}, []string{"Server", "Content-Encoding", "Date"}},
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
