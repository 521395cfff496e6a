package sluice

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/http1client"
)

func TestPooledObjectsAreEmpty(t *testing.T) {
	for range 100 {
		a, u, c := AcquireArgs(), AcquireURI(), AcquireCookie()
		if a.Len() > 0 || u.String() != "http:///" || u.DisablePathNormalizing || c.String() != "" || c.SameSite() != CookieSameSiteDisabled {
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
		ReleaseArgs(a)
		ReleaseURI(u)
		ReleaseCookie(c)
	}
}

func TestLargeObjectsAreNotPooled(t *testing.T) {
	large := strings.Repeat("x", maxPooledBytes+1)
	var a Args
	a.Set("k", large)
	a.Reset()
	var many Args
	many.Parse(strings.Repeat("a&", maxPooledBytes/16))
	var u, withArgs URI
	u.SetHash(large)
	u.Reset()
	withArgs.QueryArgs().Set("k", large)
	withArgs.Reset()
	var c Cookie
	c.SetValue(large)
	c.Reset()
	for name, held := range map[string]int{"Args": a.heldBytes(), "pairs": many.heldBytes(), "URI": u.heldBytes(), "its Args": withArgs.heldBytes(), "Cookie": c.heldBytes()} {
		if held <= maxPooledBytes {
			t.Errorf("%s seems to hold %d bytes only", name, held)
		}
	}
}

// What a Release function takes is not handed out again if it is large. The
// pools may drop anything else too, so that one that comes back is told by being
// large.
func TestReleaseLeavesLargeObjects(t *testing.T) {
	large := strings.Repeat("x", maxPooledBytes+1)
	for range 100 {
		a, u, c := AcquireArgs(), AcquireURI(), AcquireCookie()
		if a.heldBytes() > maxPooledBytes || u.heldBytes() > maxPooledBytes || c.heldBytes() > maxPooledBytes {
			t.Fatalf("a pool holds %d, %d, %d bytes in one object", a.heldBytes(), u.heldBytes(), c.heldBytes())
		}
		a.Set("k", large)
		u.SetHash(large)
		c.SetValue(large)
		ReleaseArgs(a)
		ReleaseURI(u)
		ReleaseCookie(c)
	}
}

// A pooled work of a PipelineClient is empty, and keeps no large memory.
func TestReleasedPipelineWork(t *testing.T) {
	var pool pipelineWorkPool
	w := pool.acquire(nil)
	w.into = &w.resp
	w.resp.Header.Set("x", strings.Repeat("y", 2*maxPooledBytes))
	w.resp.SetBodyString("body")
	pool.release(w)
	if got := w.resp.Header.Peek("x"); got != nil || len(w.resp.Body()) > 0 || w.resp.Header.m.Table.HeldBytes() > maxPooledBytes {
		t.Errorf("a released work has %d bytes of a field and a body of %d", len(got), len(w.resp.Body()))
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
	used := AcquireTimer(0)
	<-used.C
	ReleaseTimer(used)
	fired := AcquireTimer(time.Nanosecond)
	ReleaseTimer(fired) // without its value being received
	long := AcquireTimer(time.Hour)
	select {
	case <-long.C:
		t.Error("a timer of an hour fires at once: a value of its last use was left")
	default:
	}
	ReleaseTimer(long)
	again := AcquireTimer(time.Millisecond)
	<-again.C
	ReleaseTimer(again)
}
