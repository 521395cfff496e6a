package health

import (
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestServe(t *testing.T) {
	starting, ready, ending := State{Problem: "starting"}, State{HasStarted: true}, State{HasStarted: true, Problem: "stopping"}
	for _, c := range []struct {
		method, path string
		state        State
		status       int // 0: it is not answered
		body         string
	}{
		{"GET", "/healthz", starting, 200, "ok\n"},
		{"GET", "/healthz", ready, 200, "ok\n"},
		{"GET", "/healthz", ending, 200, "ok\n"},
		{"GET", "/readyz", starting, 503, "starting\n"},
		{"GET", "/readyz", ready, 200, "ok\n"},
		{"HEAD", "/readyz?verbose", ready, 200, "ok\n"}, // the server leaves the body out
		{"GET", "/readyz", ending, 503, "stopping\n"},
		{"GET", "/startupz", starting, 503, "starting\n"},
		{"GET", "/startupz", State{}, 200, "ok\n"},
		{"GET", "/startupz", ready, 200, "ok\n"},
		{"GET", "/startupz", ending, 200, "ok\n"},
		{"POST", "/readyz", ready, 405, "Method Not Allowed"},
		{"GET", "/", ready, 0, ""},
		{"GET", "/readyz/", ready, 0, ""},
	} {
		var ctx sluice.RequestCtx
		ctx.Request.Header.SetMethod(c.method)
		ctx.Request.SetRequestURI(c.path)
		isAnswered := Serve(&ctx, func() State { return c.state })
		if IsProbe(ctx.Path()) != isAnswered {
			t.Errorf("IsProbe(%q) is %v", ctx.Path(), !isAnswered)
		}
		r := &ctx.Response
		if isAnswered != (c.status != 0) || isAnswered && (r.StatusCode() != c.status || string(r.Body()) != c.body || string(r.Header.Peek("Cache-Control")) != "no-store") {
			t.Errorf("%+v: %v, %v", c, isAnswered, r)
		}
	}
}
