package prefork

import (
	"encoding/json"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestStatusHandler(t *testing.T) {
	p := &Prefork{}
	p.state.Store(&state{})
	handler := StatusHandler(p)
	const text, asJSON = "text/plain; charset=utf-8", "application/json"
	for _, c := range []struct{ uri, accept, want string }{
		{"/", "", text},
		{"/", "*/*", text},
		{"/", "application/json", asJSON},
		{"/", "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8", text},
		{"/", "text/plain;q=0.5, Application/JSON ; charset=utf-8; q=0.6", asJSON},
		{"/", "application/json, text/plain;q=1", text},
		{"/", "application/json;q=0", text},
		{"/", "application/json;q=x", text},
		{"/?format=json", "text/plain", asJSON},
		{"/?format=x", "application/json", text},
		{"/?format=text", "application/json", text},
	} {
		var r sluice.Request
		r.SetRequestURI(c.uri)
		r.Header.Set("Accept", c.accept)
		var ctx sluice.RequestCtx
		ctx.Init(&r, nil, nil)
		handler(&ctx)
		if got := string(ctx.Response.Header.ContentType()); got != c.want || ctx.Response.StatusCode() != 200 {
			t.Errorf("%q, Accept %q: %q, want %q", c.uri, c.accept, got, c.want)
		}
		if h := &ctx.Response.Header; string(h.Peek("Vary")) != "Accept" || string(h.Peek("Cache-Control")) != "no-store" {
			t.Errorf("%q, Accept %q: it may be stored: %s", c.uri, c.accept, h)
		}
		if isJSON := json.Valid(ctx.Response.Body()); isJSON != (c.want == asJSON) {
			t.Errorf("%q, Accept %q: %s", c.uri, c.accept, ctx.Response.Body())
		}
	}
	var head sluice.RequestCtx
	head.Request.Header.SetMethod("HEAD")
	if handler(&head); head.Response.StatusCode() != 200 {
		t.Errorf("HEAD: %v", &head.Response)
	}
	var r sluice.Request
	r.Header.SetMethod("POST")
	var ctx sluice.RequestCtx
	ctx.Init(&r, nil, nil)
	handler(&ctx)
	if ctx.Response.StatusCode() != 405 || string(ctx.Response.Header.Peek("Allow")) != "GET, HEAD" {
		t.Errorf("POST: %v", &ctx.Response)
	}
}
