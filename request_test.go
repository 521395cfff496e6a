package sluice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/values"
)

func TestRequestReset(t *testing.T) {
	var r Request
	closed := streamOf("")
	r.SetRequestURI("http://host/path?a=b")
	r.URI().SetPath("/other")
	r.PostArgs().Set("k", "v")
	r.SetBodyString("body")
	r.SetTimeout(time.Second)
	r.SetUserValue("key", closed)
	r.UseHostHeader, r.DisableRedirectPathNormalizing, r.KeepBodyBuffer, r.connection = true, true, true, overHTTPS
	r.Reset()
	if got := r.URI().String(); got != "http:///" {
		t.Errorf("URI %q", got)
	}
	if r.PostArgs().Len() != 0 || len(r.Body()) != 0 || r.GetTimeOut() != 0 || r.UserValue("key") != nil ||
		r.UseHostHeader || r.DisableRedirectPathNormalizing || r.connection != notReceived {
		t.Error("something is left")
	}
	if !r.KeepBodyBuffer {
		t.Error("KeepBodyBuffer was reset")
	}
	if closed.closed != 1 {
		t.Errorf("the user value was closed %d times", closed.closed)
	}
}

func TestRequestCopyTo(t *testing.T) {
	var r Request
	r.SetRequestURI("http://host/path?a=b")
	r.Header.SetMethod("PUT")
	r.Header.Set("X-A", "1")
	r.URI().SetPath("/other")
	r.PostArgs().Set("k", "v")
	r.SetBodyRaw([]byte("body"))
	r.SetUserValue("key", "value")
	r.SetTimeout(time.Second)
	r.UseHostHeader, r.DisableRedirectPathNormalizing = true, true
	dst := Request{KeepBodyBuffer: true}
	dst.SetBodyStream(streamOf("old"), 3)
	dst.SetUserValue("old", 1)
	r.CopyTo(&dst)
	want := r.String()
	r.SetBodyString("changed")
	r.PostArgs().Set("k", "changed")
	if got := dst.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !dst.UseHostHeader || !dst.DisableRedirectPathNormalizing || !dst.KeepBodyBuffer || dst.PostArgs().String() != "k=v" {
		t.Error("settings are not as documented")
	}
	if dst.UserValue("key") != nil || dst.UserValue("old") != nil || dst.GetTimeOut() != 0 {
		t.Error("user values and timeout must not be copied")
	}
	dst.CopyTo(&dst)
	if got := dst.String(); got != want {
		t.Errorf("copied to itself: %q", got)
	}
}

func TestPostArgs(t *testing.T) {
	for contentType, want := range map[string]string{
		"application/x-www-form-urlencoded":                "a=b&c",
		"application/x-www-form-urlencoded; charset=utf-8": "a=b&c",
		"APPLICATION/X-WWW-Form-Urlencoded":                "a=b&c",
		"application/x-www-form-urlencodedx":               "",
		"text/plain":                                       "",
		"":                                                 "",
	} {
		for _, isStream := range []bool{false, true} {
			var r Request
			r.Header.SetContentType(contentType)
			if isStream {
				r.SetBodyStream(strings.NewReader("a=b&c"), 5)
			} else {
				r.SetBodyString("a=b&c")
			}
			if got := r.PostArgs().String(); got != want {
				t.Errorf("%q: %q", contentType, got)
			}
		}
	}
}

func TestUserValues(t *testing.T) {
	var r Request
	closer := streamOf("")
	r.SetUserValue("string", 1)
	r.SetUserValueBytes([]byte("bytes"), 2)
	r.SetUserValue([]byte("more"), 3)
	r.SetUserValue(42, 4)
	r.SetUserValue("string", 5)
	r.SetUserValue("absent", nil)
	r.SetUserValue("closer", closer)
	for key, want := range map[any]any{"string": 5, "bytes": 2, "more": 3, 42: 4, "absent": nil, 43: nil} {
		if got := r.UserValue(key); got != want {
			t.Errorf("%v: %v", key, got)
		}
		if s, ok := key.(string); ok && (r.UserValueBytes([]byte(s)) != want || r.UserValue([]byte(s)) != want) {
			t.Errorf("%v as bytes", key)
		}
	}
	var keys, all int
	r.VisitUserValues(func([]byte, any) { keys++ })
	r.VisitUserValuesAll(func(any, any) { all++ })
	if keys != 4 || all != 5 {
		t.Errorf("visited %d and %d", keys, all)
	}
	r.SetUserValue(42, nil)
	if all = 0; r.UserValue(42) != nil {
		t.Error("42 is not nil")
	}
	r.VisitUserValuesAll(func(any, any) { all++ })
	if all != 5 {
		t.Error("a nil value must stay visible")
	}
	r.RemoveUserValue("string")
	r.RemoveUserValueBytes([]byte("bytes"))
	r.RemoveUserValue("never there")
	if r.UserValue("string") != nil || r.UserValue("bytes") != nil || r.UserValue("more") != 3 {
		t.Error("removing removed something else")
	}
	held := r.userValues
	r.ResetUserValues()
	if closer.closed != 1 || r.UserValue("more") != nil {
		t.Error("reset")
	}
	for _, v := range held[:cap(held)] {
		if v != (values.Entry{}) {
			t.Errorf("%v is retained", v)
		}
	}
}

// The order of user values is that in which they were set, also after a removal.
func TestUserValuesKeepTheirOrder(t *testing.T) {
	var r Request
	for i, key := range []string{"a", "b", "c", "d"} {
		r.SetUserValue(key, i)
	}
	r.RemoveUserValue("b")
	r.SetUserValue("a", 9)
	r.SetUserValue("e", 4)
	var visited string
	r.VisitUserValues(func(key []byte, value any) { visited += fmt.Sprintf("%s=%d ", key, value) })
	if visited != "a=9 c=2 d=3 e=4 " {
		t.Errorf("visited %s", visited)
	}
}

func TestUserValuesAllocateNothingOnReuse(t *testing.T) {
	var r Request
	var value any = "value"
	key := []byte("bytes")
	n := testing.AllocsPerRun(100, func() {
		r.SetUserValue("key", value)
		r.UserValue("key")
		r.UserValueBytes(key)
		r.ResetUserValues()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Nothing of a request's URI is left after Reset, its settings included.
func TestResetForgetsTheURI(t *testing.T) {
	var r Request
	r.SetRequestURI("http://h/a/../b?q#f")
	u := r.URI()
	u.DisablePathNormalizing = true
	u.SetUsername("user")
	r.Reset()
	if u.DisablePathNormalizing || len(u.Username()) > 0 || len(u.Hash()) > 0 || len(u.QueryString()) > 0 {
		t.Errorf("a URI is left: %v, %q", u.DisablePathNormalizing, u.FullURI())
	}
	r.SetRequestURI("http://h/a/../b")
	if got := r.URI().String(); got != "http://h/b" {
		t.Errorf("the next URI is %q", got)
	}
}
