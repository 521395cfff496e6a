package message_test

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestCopiesByAssignmentDoNotChangeEachOther: a message that was copied by value has
// memory of its own from its first change on.
func TestCopiesByAssignmentDoNotChangeEachOther(t *testing.T) {
	newRequest := func() *sluice.RequestHeader {
		r := &sluice.RequestHeader{}
		r.SetMethod("PUT")
		r.SetRequestURI("/first/path")
		r.SetHost("first.example")
		r.Set("X-A", "first value")
		r.Add("X-B", "second value")
		return r
	}
	for name, change := range map[string]func(h *sluice.RequestHeader){
		"Set":           func(h *sluice.RequestHeader) { h.Set("X-A", "2") },
		"SetHost":       func(h *sluice.RequestHeader) { h.SetHost("h") },
		"Add":           func(h *sluice.RequestHeader) { h.Add("X-C", "2") },
		"Del":           func(h *sluice.RequestHeader) { h.Del("X-A") },
		"SetMethod":     func(h *sluice.RequestHeader) { h.SetMethod("GET") },
		"SetRequestURI": func(h *sluice.RequestHeader) { h.SetRequestURI("/2") },
		"Reset":         func(h *sluice.RequestHeader) { h.Reset(); h.SetRequestURI("/3"); h.Set("X-Z", strings.Repeat("z", 40)) },
		"CopyTo": func(h *sluice.RequestHeader) {
			var o sluice.RequestHeader
			o.SetMethod("X")
			o.Set("Q", "qqqq")
			o.CopyTo(h)
		},
	} {
		original := newRequest()
		want := original.String()
		dup := harness.Assigned(original)
		change(dup)
		changed := dup.String()
		if got := original.String(); got != want || changed == want {
			t.Errorf("%s: the original is\n%s\nthe copy\n%s", name, got, changed)
		}
		original.Add("X-D", "added to the original")
		if got := dup.String(); got != changed {
			t.Errorf("%s: a change of the original made the copy\n%s", name, got)
		}
	}
	p := &sluice.ResponseHeader{}
	p.Set("X-A", "first value")
	p.SetServer("s")
	want := p.String()
	dup := harness.Assigned(p)
	dup.Set("X-A", "2")
	dup.SetServer("t")
	dup.Add("X-B", "3")
	p.Add("X-C", "4")
	if got := strings.Replace(p.String(), "X-C: 4\r\n", "", 1); got != want || !strings.Contains(dup.String(), "X-B: 3") {
		t.Errorf("original %q, copy %q", p.String(), dup.String())
	}
}
