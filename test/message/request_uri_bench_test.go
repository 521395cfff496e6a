package message_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// received returns a context with a request for target, as handlers get it.
func received(tb testing.TB, target string) *sluice.RequestCtx {
	ctx := new(sluice.RequestCtx)
	head := strings.Replace(usualGet, "/articles?page=2", target, 1)
	head = strings.Replace(head, "\r\n\r\n", "\r\nX-Request-Id: 0123456789abcdef\r\n\r\n", 1)
	if err := ctx.Request.Read(bufio.NewReader(strings.NewReader(head))); err != nil {
		tb.Fatal(err)
	}
	return ctx
}
