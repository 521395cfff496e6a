package sluice_test

import (
	"fmt"
	"strings"

	"github.com/sluicehttp/sluice"
)

func ExampleCompressHandler() {
	handler := sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(strings.Repeat("water ", 1000))
	})

	var ctx sluice.RequestCtx
	ctx.Init(nil, nil, nil)
	ctx.Request.Header.Set("Accept-Encoding", "deflate;q=0.5, gzip")
	handler(&ctx)

	body, err := ctx.Response.BodyUncompressed()
	fmt.Printf("%s %v\n", ctx.Response.Header.ContentEncoding(), len(ctx.Response.Body()) < 200)
	fmt.Println(len(body), err)
	// Output:
	// gzip true
	// 6000 <nil>
}
