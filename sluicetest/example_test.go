package sluicetest_test

import (
	"fmt"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sluicetest"
)

// A test of a handler, with a server and without one.
func Example() {
	hello := func(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "Hello, %s!", ctx.QueryArgs().Peek("name")) }
	_ = func(t *testing.T) {
		sluicetest.CheckLeaks(t)
		s := sluicetest.NewTLSServer(t, hello)
		if _, body, err := s.Client().Get(nil, s.URL+"/?name=Ada"); string(body) != "Hello, Ada!" || err != nil {
			t.Errorf("%q, %v", body, err)
		}

		resp := sluicetest.Record(t, hello, sluicetest.NewRequest("GET", "/?name=Ada", ""))
		if string(resp.Body()) != "Hello, Ada!" {
			t.Error(resp)
		}
	}
}
