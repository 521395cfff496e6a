package sluice

import (
	"fmt"
	"reflect"
	"testing"
)

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
