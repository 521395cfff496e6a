package router_test

import (
	"fmt"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/router"
)

func Example() {
	requireToken := func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			if len(ctx.Request.Header.Peek("Authorization")) == 0 {
				ctx.Error("who are you?", sluice.StatusUnauthorized)
				return
			}
			h(ctx)
		}
	}
	r := &router.Router{}
	r.Handle("GET /{$}", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("welcome") })
	api := r.Group("/api", requireToken)
	api.Handle("GET /users/{id}", func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "user %s by %q", router.Param(ctx, "id"), router.Pattern(ctx))
	})

	for _, line := range [][2]string{{"GET", "/"}, {"GET", "/api/users/7"}, {"PUT", "/api/users/7"}, {"GET", "/none"}} {
		var ctx sluice.RequestCtx
		ctx.Request.Header.SetMethod(line[0])
		ctx.Request.Header.Set("Authorization", "Bearer x")
		ctx.Request.SetRequestURI(line[1])
		r.Handler(&ctx)
		fmt.Println(ctx.Response.StatusCode(), string(ctx.Response.Body()))
	}
	// Output:
	// 200 welcome
	// 200 user 7 by "GET /api/users/{id}"
	// 405 Method Not Allowed
	// 404 404 Page not found
}
