package server_test

import (
	"github.com/sluicehttp/sluice"
)

const (
	simpleGet = "GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n"

	smallPost = "POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\na=1&b=two&c"
)

func plainTextHandler(ctx *sluice.RequestCtx) {
	ctx.SetContentType("text/plain")
	ctx.SetBodyString("Hello, World!")
}
