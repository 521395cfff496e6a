package middleware_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/shared"
)

func Example() {
	limit := shared.Must(shared.Default().RateLimiter("api", shared.RateLimit{Events: 100, Per: time.Minute}))
	server := &sluice.Server{Handler: middleware.Use(
		func(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "hello, %s\n", middleware.UserOf(ctx)) },
		middleware.RealIP(middleware.RealIPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}),
		middleware.RequestID,
		middleware.SecureHeaders(nil),
		middleware.Recover(nil),
		middleware.RateLimit(limit, middleware.RateLimitOptions{}),
		middleware.BasicAuth("staff", middleware.Accounts(map[string]string{"ann": "open sesame"})),
	)}

	var request sluice.Request
	request.SetRequestURI("http://example.com/")
	request.Header.Set("Authorization", "Basic YW5uOm9wZW4gc2VzYW1l")
	var ctx sluice.RequestCtx
	ctx.Init(&request, nil, nil)
	server.Handler(&ctx)
	fmt.Printf("%s%s\n", ctx.Response.Body(), ctx.Response.Header.Peek("RateLimit-Policy"))
	// Output:
	// hello, ann
	// "default";q=100;w=60
}
