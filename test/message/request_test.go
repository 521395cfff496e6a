package message_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestRequestCopyTo(t *testing.T) {
	var r sluice.Request
	r.SetRequestURI("http://host/path?a=b")
	r.Header.SetMethod("PUT")
	r.Header.Set("X-A", "1")
	r.URI().SetPath("/other")
	r.PostArgs().Set("k", "v")
	r.SetBodyRaw([]byte("body"))
	r.SetUserValue("key", "value")
	r.SetTimeout(time.Second)
	r.UseHostHeader, r.DisableRedirectPathNormalizing = true, true
	dst := sluice.Request{KeepBodyBuffer: true}
	dst.SetBodyStream(harness.StreamOf("old"), 3)
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
			var r sluice.Request
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

// The order of user values is that in which they were set, also after a removal.
func TestUserValuesKeepTheirOrder(t *testing.T) {
	var r sluice.Request
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
	var r sluice.Request
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
	var r sluice.Request
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
