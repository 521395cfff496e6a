package requestid

import (
	"context"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// serve runs handler with a request that has the field, and returns the response's id.
func serve(given string, handler sluice.RequestHandler) (id string, ctx *sluice.RequestCtx) {
	var r sluice.Request
	r.SetRequestURI("/")
	if given != "" {
		r.Header.Set(Header, given)
	}
	ctx = &sluice.RequestCtx{}
	ctx.Init(&r, nil, nil)
	Handler(handler)(ctx)
	if late := ctx.LastTimeoutErrorResponse(); late != nil {
		return string(late.Header.Peek(Header)), ctx
	}
	return string(ctx.Response.Header.Peek(Header)), ctx
}

func TestHandler(t *testing.T) {
	long := strings.Repeat("x", MaxLength)
	for _, given := range []string{"a", "0af7651916cd43dd8448eb211c80319c", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "a/b+c=", "svc:1@host.x~y-z_", long} {
		var seen string
		id, _ := serve(given, func(ctx *sluice.RequestCtx) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			seen = Of(derived)
		})
		if id != given || seen != given {
			t.Errorf("%q: the response has %q, the handler %q", given, id, seen)
		}
	}
	seen := map[string]bool{}
	for _, given := range []string{"", " ", "a b", "a\tb", "a;b", `"a"`, "é", "<script>", long + "x"} {
		id, ctx := serve(given, func(*sluice.RequestCtx) {})
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || seen[id] || Of(ctx) != id {
			t.Errorf("%q: %q, and in the context %q", given, id, Of(ctx))
		}
		seen[id] = true
	}
}

// The response has the id, whatever the handler does with it.
func TestIDOfEachResponse(t *testing.T) {
	for name, handler := range map[string]sluice.RequestHandler{
		"error":   func(ctx *sluice.RequestCtx) { ctx.Error("no", 500) },
		"timeout": func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") },
	} {
		if id, _ := serve("given", handler); id != "given" {
			t.Errorf("%s: %q", name, id)
		}
	}
	if id, _ := serve("given", func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set(Header, "own") }); id != "own" {
		t.Errorf("the handler's own: %q", id)
	}
}

func TestOfNothing(t *testing.T) {
	if id := Of(&sluice.RequestCtx{}); id != "" {
		t.Errorf("%q", id)
	}
}

func FuzzIsValid(f *testing.F) {
	f.Add([]byte("a-b"))
	f.Add([]byte("a b"))
	f.Fuzz(func(t *testing.T, id []byte) {
		isValid := len(id) > 0 && len(id) <= MaxLength
		for _, c := range id {
			isValid = isValid && strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=:@", c) >= 0
		}
		if IsValid(id) != isValid {
			t.Errorf("%q is valid: %v", id, !isValid)
		}
	})
}
