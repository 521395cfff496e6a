package sluice

import (
	"strings"
	"testing"
)

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

// A keptBytes is what package proxy keeps with a RequestCtx.
type keptBytes int

func (n keptBytes) HeldBytes() int { return int(n) }

// TestKeptCounts: that is memory of the RequestCtx, which much of it leaves.
func TestKeptCounts(t *testing.T) {
	var ctx RequestCtx
	before := ctx.heldBytes()
	for n, isKept := range map[keptBytes]bool{maxPooledBytes: true, maxPooledBytes + 1: false} {
		ctx.kept = n
		if held := ctx.heldBytes(); held != before+int(n) {
			t.Errorf("%d bytes are held instead of %d", held, before+int(n))
		}
		if ctx.shrink(); (ctx.kept != nil) != isKept {
			t.Errorf("%d bytes are kept: %t", n, !isKept)
		}
	}
}
