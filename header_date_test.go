package sluice

import (
	"testing"
)

// TestIsSet: defaults do not count.
func TestIsSet(t *testing.T) {
	var h ResponseHeader
	h.m.DefaultServer, h.m.ShowsServer = []byte("sluice"), true
	for _, name := range []string{"Server", "content-type", "Date", "X-Own", "Content-Length"} {
		if h.IsSet(name) {
			t.Errorf("%s is set", name)
		}
	}
	h.SetServer("x")
	h.SetContentType("a/b")
	h.SetDate("now")
	h.Set("X-Own", "")
	h.SetContentLength(1)
	for _, name := range []string{"Server", "content-type", "Date", "X-Own", "Content-Length"} {
		if !h.IsSet(name) {
			t.Errorf("%s is not set", name)
		}
	}
}
