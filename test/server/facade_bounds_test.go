package server_test

import (
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestEverySetterOfArgs: each sets, and each adder adds.
func TestEverySetterOfArgs(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	for name, change := range map[string]func(a *sluice.Args, key, value string){
		"Set":        (*sluice.Args).Set,
		"SetBytesK":  func(a *sluice.Args, key, value string) { a.SetBytesK(b(key), value) },
		"SetBytesV":  func(a *sluice.Args, key, value string) { a.SetBytesV(key, b(value)) },
		"SetBytesKV": func(a *sluice.Args, key, value string) { a.SetBytesKV(b(key), b(value)) },
		"Add":        (*sluice.Args).Add,
		"AddBytesK":  func(a *sluice.Args, key, value string) { a.AddBytesK(b(key), value) },
		"AddBytesV":  func(a *sluice.Args, key, value string) { a.AddBytesV(key, b(value)) },
		"AddBytesKV": func(a *sluice.Args, key, value string) { a.AddBytesKV(b(key), b(value)) },
	} {
		var a sluice.Args
		change(&a, "k", "1")
		change(&a, "k", "2")
		want := "k=2"
		if name[0] == 'A' {
			want = "k=1&k=2"
		}
		if got := a.String(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestFSHandlerStrips: FSHandler removes as many segments as it was told.
func TestFSHandlerStrips(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"f": "root", "a/f": "below"})
	for strip, want := range map[int]string{0: "below", 1: "root"} {
		if got := harness.Served(harness.FileRequest(sluice.FSHandler(dir, strip), "GET", "/a/f")); got != want {
			t.Errorf("%d: %q, want %q", strip, got, want)
		}
	}
	h := sluice.FSHandler(dir, 0)
	if got := harness.Served(harness.FileRequest(h, "GET", "/a/")); !strings.Contains(got, "<bdi>f</bdi>") {
		t.Errorf("folder: %.100q", got)
	}
	if got := harness.Served(harness.FileRequest(h, "GET", "/a/f", "Range: bytes=1-2")); got != "el" {
		t.Errorf("range: %q", got)
	}
}

// TestInit2BeginsAnew: nothing remains of an earlier use.
func TestInit2BeginsAnew(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.Request.SetRequestURI("/old")
	ctx.Response.SetBodyString("old")
	ctx.SetUserValue("k", "old")
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ctx.Init2(a, nil, false)
	if string(ctx.Request.RequestURI()) != "/" || len(ctx.Response.Body()) != 0 || ctx.UserValue("k") != nil {
		t.Errorf("%q, %q, %v", ctx.Request.RequestURI(), ctx.Response.Body(), ctx.UserValue("k"))
	}
}
