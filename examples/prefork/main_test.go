package main

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// ask calls the handler as a server would.
func ask(a *app, path string) *sluice.Response {
	var ctx sluice.RequestCtx
	var req sluice.Request
	req.SetRequestURI("http://127.0.0.1" + path)
	ctx.Init(&req, nil, nil)
	a.handle(&ctx)
	return &ctx.Response
}

// Two workers with one segment, in one process.
func TestWorkersShare(t *testing.T) {
	s, err := shared.New(shared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	workers := []*app{newApp(s), newApp(s)}
	workers[1].worker.Slot = 1
	for i, want := range []string{"worker 0.0", "worker 1.0", "request 3 of all"} {
		if body := string(ask(workers[i%2], "/").Body()); !strings.Contains(body, want) {
			t.Errorf("request %d: %q, want %q", i, body, want)
		}
	}
	// One or two more may be admitted as time passes.
	answers := make(map[int]int)
	for i := range 20 {
		answers[ask(workers[i%2], "/limited").StatusCode()]++
	}
	if answers[sluice.StatusOK] < 5 || answers[sluice.StatusTooManyRequests] < 10 {
		t.Errorf("answers by status: %v", answers)
	}
}
