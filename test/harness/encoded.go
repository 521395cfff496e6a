package harness

import (
	"strings"

	"github.com/sluicehttp/sluice"
)

// CodecCodings are the codings of codecs, in a fixed order.
var CodecCodings = [...]string{"gzip", "deflate", "br", "zstd"}

var LongText = strings.Repeat("sluice carries water. ", 400)

// EncodedBy has a handler answer a request with an Accept-Encoding, "-" for
// none.
func EncodedBy(h sluice.RequestHandler, method, accept string) *sluice.RequestCtx {
	ctx := new(sluice.RequestCtx)
	ctx.Init(nil, nil, nil)
	ctx.Request.Header.SetMethod(method)
	if accept != "-" {
		ctx.Request.Header.Set(sluice.HeaderAcceptEncoding, accept)
	}
	h(ctx)
	return ctx
}

func TextHandler(ctx *sluice.RequestCtx) { ctx.SetBodyString(LongText) }
