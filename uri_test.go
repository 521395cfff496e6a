package sluice

import (
	"bytes"
	"testing"
)

func TestURISettersForBytes(t *testing.T) {
	var u URI
	u.SetSchemeBytes([]byte("HTTPS"))
	u.SetHostBytes([]byte("H.com:8443"))
	u.SetPathBytes([]byte("/a/../b c"))
	u.SetQueryStringBytes([]byte("q"))
	u.SetHashBytes([]byte("f"))
	u.SetUsernameBytes([]byte("u"))
	u.SetPasswordBytes([]byte("p"))
	if got := u.String(); got != "https://h.com:8443/b%20c?q#f" || string(u.Username()) != "u" || string(u.Password()) != "p" || !u.m.IsHTTPS() {
		t.Errorf("%q", got)
	}
	if string(u.AppendBytes([]byte("> "))) != "> "+u.String() {
		t.Error("AppendBytes")
	}
	var w bytes.Buffer
	if n, err := u.WriteTo(&w); err != nil || n != int64(w.Len()) || w.String() != u.String() {
		t.Errorf("WriteTo: %d, %v, %q", n, err, w.String())
	}
}

func TestURIDoesNotAllocateWhenUsedAgain(t *testing.T) {
	var u, v URI
	host, plain, unusual := []byte("example.com"), []byte("/a/b?c=d"), []byte("/a%20b/../c?d=e")
	work := func() {
		if u.m.ParseTarget(host, plain, false) != nil || u.Parse(host, unusual) != nil {
			t.Fatal("refused")
		}
		u.QueryArgs().Set("x", "y")
		_, _ = u.FullURI(), u.RequestURI()
		u.Update("../z?y#x")
		u.CopyTo(&v)
		_, _ = v.Path(), v.LastPathSegment()
	}
	work()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
