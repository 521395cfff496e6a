package middleware

import (
	"context"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// identified runs handler with a request that has the field, and returns the response's id.
func identified(t *testing.T, given string, handler sluice.RequestHandler) (id string, ctx *sluice.RequestCtx) {
	ctx = request(t, "GET / HTTP/1.1")
	if given != "" {
		ctx.Request.Header.Set(HeaderRequestID, given)
	}
	RequestID(handler)(ctx)
	return field(ctx, HeaderRequestID), ctx
}

func TestRequestID(t *testing.T) {
	long := strings.Repeat("x", maxRequestID)
	for _, given := range []string{"a", "0af7651916cd43dd8448eb211c80319c", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "a/b+c=", "svc:1@host.x~y-z_", long} {
		var seen string
		id, _ := identified(t, given, func(ctx *sluice.RequestCtx) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			seen = RequestIDOf(derived)
		})
		if id != given || seen != given {
			t.Errorf("%q: the response has %q, the handler %q", given, id, seen)
		}
	}
	// Ids that would forge lines of logs, or fill them, are replaced.
	seen := map[string]bool{}
	for _, given := range []string{"", " ", "a b", "a\tb", "a;b", `"a"`, "é", "<script>", long + "x"} {
		id, ctx := identified(t, given, func(*sluice.RequestCtx) {})
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || seen[id] || RequestIDOf(ctx) != id {
			t.Errorf("%q: %q, and in the context %q", given, id, RequestIDOf(ctx))
		}
		seen[id] = true
	}
	if id, _ := identified(t, "given", func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set(HeaderRequestID, "own") }); id != "own" {
		t.Errorf("the handler's own: %q", id)
	}
	if id := RequestIDOf(&sluice.RequestCtx{}); id != "" {
		t.Errorf("%q", id)
	}
}

func FuzzIsRequestID(f *testing.F) {
	f.Add([]byte("a-b"))
	f.Add([]byte("a b"))
	f.Fuzz(func(t *testing.T, id []byte) {
		isValid := len(id) > 0 && len(id) <= maxRequestID
		for _, c := range id {
			isValid = isValid && strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=:@", c) >= 0
		}
		if isRequestID(id) != isValid {
			t.Errorf("%q is valid: %v", id, !isValid)
		}
	})
}
