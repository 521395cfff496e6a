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

// TestCopiesByAssignmentShareBodies: a change of a copy's body does not reach the original;
// a copy sees the body that the original has, in its whole length, as with fasthttp.
func TestCopiesByAssignmentShareBodies(t *testing.T) {
	const first = "the first body"
	for name, change := range map[string]func(b *body){
		"SetBody short": func(b *body) { b.SetBodyString("2nd") },
		"SetBody long":  func(b *body) { b.SetBodyString(strings.Repeat("2", 5000)) },
		"AppendBody":    func(b *body) { b.AppendBodyString("+") },
		"BodyWriter":    func(b *body) { b.clear(false, &bodyPoolLimits.request); _, _ = b.BodyWriter().Write([]byte("w")) },
		"ResetBody":     func(b *body) { b.clear(true, &bodyPoolLimits.request) },
		"SetBodyRaw":    func(b *body) { b.SetBodyRaw([]byte("raw")) },
		"SwapBody":      func(b *body) { clear(b.SwapBody([]byte("swapped"))) },
		"a stream":      func(b *body) { b.setStream(strings.NewReader("stream"), -1); b.Body() },
	} {
		t.Run(name, func(t *testing.T) {
			original := &Response{}
			original.SetBodyString(first)
			dup := assigned(original)
			change(&dup.body)
			changed := string(dup.Body())
			if got := string(original.Body()); got != first || changed == first {
				t.Fatalf("the original has %q, the copy %q", got, changed)
			}
			original.SetBodyString("of the original")
			if got := string(dup.Body()); got != changed {
				t.Errorf("a change of the original made the copy %q", got)
			}

			original.SetBodyString(first)
			dup = assigned(original)
			change(&original.body)
			if got := string(dup.Body()); got != first && got != string(original.buffered()) {
				t.Errorf("the original has %q, its copy %q", original.Body(), got)
			}
		})
	}
	saved := Response{}
	ctx := &RequestCtx{}
	ctx.SetBodyString(first)
	reflect.ValueOf(&saved).Elem().Set(reflect.ValueOf(&ctx.Response).Elem())
	reflect.ValueOf(&ctx.Response).Elem().Set(reflect.ValueOf(&Response{}).Elem())
	ctx.SetBodyString("of another handler")
	reflect.ValueOf(&ctx.Response).Elem().Set(reflect.ValueOf(&saved).Elem())
	if got := string(ctx.Response.Body()); got != first {
		t.Errorf("restored: %q", got)
	}
	released := AcquireRequest()
	released.SetBodyString(first)
	kept := assigned(released)
	ReleaseRequest(kept)
	if got := string(released.Body()); got != first {
		t.Errorf("after the release of its copy: %q", got)
	}
}
