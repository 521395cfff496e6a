// Package requestid gives each request of a server an id, by which its lines in the logs of
// several programs can be found: that of the client's X-Request-Id, or a new one.
//
//	server.Handler = requestid.Handler(handle)
//
// Handlers read it with Of, and pass it on to the servers that they ask. Package accesslog
// logs it, if its handler is inside.
package requestid

import (
	"context"
	"math/rand/v2"

	"github.com/sluicehttp/sluice"
)

// Header is the name of the field, in requests and in responses.
const Header = "X-Request-Id"

// MaxLength bounds the ids that are taken over from clients, in bytes.
const MaxLength = 128

// key is the key of the user value.
type key struct{}

// Handler returns a handler that calls h with an id. The id is that of the request's field
// X-Request-Id if it is valid, see IsValid, and otherwise a new one of 32 random hexadecimal
// digits. The response has it in the field of the same name, unless h sets that field, or
// panics. Clients choose their ids, so an id is no proof of anything.
func Handler(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		id := ""
		if given := ctx.Request.Header.Peek(Header); IsValid(given) {
			id = string(given)
		} else {
			id = newID()
		}
		ctx.SetUserValue(key{}, id)
		ctx.Response.Header.Set(Header, id) // h may send the head, or read it
		h(ctx)
		switch late := ctx.LastTimeoutErrorResponse(); {
		case late != nil: // ctx is that of goroutines that go on
			var resp sluice.Response
			late.CopyTo(&resp)
			resp.Header.Set(Header, id)
			ctx.TimeoutErrorWithResponse(&resp)
		case len(ctx.Response.Header.Peek(Header)) == 0: // ctx.Error has removed it
			ctx.Response.Header.Set(Header, id)
		}
	}
}

// Of returns the id of a request, from its RequestCtx or from a context that was derived of
// it; empty without Handler.
func Of(ctx context.Context) string {
	id, _ := ctx.Value(key{}).(string)
	return id
}

// IsValid reports whether an id may be taken over: it has 1 to MaxLength bytes, which are
// letters, digits and -._~+/=:@, as UUIDs, ULIDs, base64 and trace ids have.
func IsValid(id []byte) bool {
	if len(id) == 0 || len(id) > MaxLength {
		return false
	}
	for _, c := range id {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == '+', c == '/', c == '=', c == ':', c == '@':
		default:
			return false
		}
	}
	return true
}

// newID returns 128 random bits.
func newID() string {
	const digits = "0123456789abcdef"
	var text [32]byte
	high, low := rand.Uint64(), rand.Uint64()
	for i := range 16 {
		text[i], text[16+i] = digits[high>>(4*i)&15], digits[low>>(4*i)&15]
	}
	return string(text[:])
}
