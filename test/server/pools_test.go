package server_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
)

func TestPooledObjectsAreEmpty(t *testing.T) {
	for range 100 {
		a, u, c := sluice.AcquireArgs(), sluice.AcquireURI(), sluice.AcquireCookie()
		if a.Len() > 0 || u.String() != "http:///" || u.DisablePathNormalizing || c.String() != "" || c.SameSite() != sluice.CookieSameSiteDisabled {
			t.Fatalf("%q, %q, %q", a.String(), u.String(), c.String())
		}
		a.Set("k", "v")
		if err := u.Parse(nil, []byte("https://u:p@h/x?y#z")); err != nil {
			t.Fatal(err)
		}
		u.DisablePathNormalizing = true
		u.QueryArgs().Set("k", "v")
		if err := c.Parse("k=v; secure; samesite=lax; max-age=5"); err != nil {
			t.Fatal(err)
		}
		sluice.ReleaseArgs(a)
		sluice.ReleaseURI(u)
		sluice.ReleaseCookie(c)
	}
}

// A pooled writer knows its last destination no longer.
func TestReleasedClientWriter(t *testing.T) {
	var sent bytes.Buffer
	w := http1client.AcquireWriter(&sent, 64)
	http1client.ReleaseWriter(w)
	defer func() {
		if recover() == nil || sent.Len() > 0 {
			t.Errorf("what is written after the release goes to the last destination: %d bytes", sent.Len())
		}
	}()
	w.WriteByte('x')
	w.Flush() // to nobody
}

func TestTimers(t *testing.T) {
	used := sluice.AcquireTimer(0)
	<-used.C
	sluice.ReleaseTimer(used)
	fired := sluice.AcquireTimer(time.Nanosecond)
	sluice.ReleaseTimer(fired) // without its value being received
	long := sluice.AcquireTimer(time.Hour)
	select {
	case <-long.C:
		t.Error("a timer of an hour fires at once: a value of its last use was left")
	default:
	}
	sluice.ReleaseTimer(long)
	again := sluice.AcquireTimer(time.Millisecond)
	<-again.C
	sluice.ReleaseTimer(again)
}
