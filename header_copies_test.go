package sluice

import (
	"reflect"
	"strings"
	"testing"
)

// assigned returns a copy by assignment, which go vet would refuse.
func assigned[T any](v *T) *T {
	dup := new(T)
	reflect.ValueOf(dup).Elem().Set(reflect.ValueOf(v).Elem())
	return dup
}

// TestCopiesByAssignmentDoNotChangeEachOther: a message that was copied by value has
// memory of its own from its first change on.
func TestCopiesByAssignmentDoNotChangeEachOther(t *testing.T) {
	newRequest := func() *RequestHeader {
		r := &RequestHeader{}
		r.SetMethod("PUT")
		r.SetRequestURI("/first/path")
		r.SetHost("first.example")
		r.Set("X-A", "first value")
		r.Add("X-B", "second value")
		return r
	}
	for name, change := range map[string]func(h *RequestHeader){
		"Set":           func(h *RequestHeader) { h.Set("X-A", "2") },
		"SetHost":       func(h *RequestHeader) { h.SetHost("h") },
		"Add":           func(h *RequestHeader) { h.Add("X-C", "2") },
		"Del":           func(h *RequestHeader) { h.Del("X-A") },
		"SetMethod":     func(h *RequestHeader) { h.SetMethod("GET") },
		"SetRequestURI": func(h *RequestHeader) { h.SetRequestURI("/2") },
		"Reset":         func(h *RequestHeader) { h.Reset(); h.SetRequestURI("/3"); h.Set("X-Z", strings.Repeat("z", 40)) },
		"CopyTo":        func(h *RequestHeader) { var o RequestHeader; o.SetMethod("X"); o.Set("Q", "qqqq"); o.CopyTo(h) },
	} {
		original := newRequest()
		want := original.String()
		dup := assigned(original)
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
	p := &ResponseHeader{}
	p.Set("X-A", "first value")
	p.SetServer("s")
	want := p.String()
	dup := assigned(p)
	dup.Set("X-A", "2")
	dup.SetServer("t")
	dup.Add("X-B", "3")
	p.Add("X-C", "4")
	if got := strings.Replace(p.String(), "X-C: 4\r\n", "", 1); got != want || !strings.Contains(dup.String(), "X-B: 3") {
		t.Errorf("original %q, copy %q", p.String(), dup.String())
	}
}

func TestMovedHeadersKeepTheirMemory(t *testing.T) {
	from := &RequestHeader{}
	from.Set("X-A", "1")
	var to RequestHeader
	if n := testing.AllocsPerRun(100, func() {
		to.m = from.m
		to.m.Moved()
		to.Set("X-A", "2")
		from.m = to.m
		from.m.Moved()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
