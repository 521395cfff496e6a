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
