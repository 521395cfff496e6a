package sluice

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/server/http1"
)

// Another protocol may write the body of a response to GET with status 200 that has no
// stream, if the request was read and the server does not shut down.
func TestMayBeginBody(t *testing.T) {
	for name, change := range map[string]func(ctx *RequestCtx){
		"":                 nil,
		"HEAD":             func(ctx *RequestCtx) { ctx.verb = verbHead },
		"another status":   func(ctx *RequestCtx) { ctx.SetStatusCode(StatusAccepted) },
		"a request's body": func(ctx *RequestCtx) { ctx.requestStream.exchange = &http1.Exchange{} },
		"the end":          func(ctx *RequestCtx) { ctx.server.gauges.isClosing.Store(true) },
	} {
		ctx := &RequestCtx{server: &Server{}}
		if change != nil {
			change(ctx)
		}
		if got, want := ctx.mayBeginBody(), change == nil; got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
