package middleware

import (
	"context"
	"math/rand/v2"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/requestid"
)

// HeaderRequestID is the name of the field, in requests and in responses.
const HeaderRequestID = "X-Request-Id"

// maxRequestID bounds the ids that are taken over from clients, in bytes: they are logged.
const maxRequestID = 128

// RequestID is a middleware that gives each request an id, by which its lines in the logs of
// several programs can be found. The id is that of the request's field X-Request-Id if it has 1
// to 128 letters, digits and -._~+/=:@, as UUIDs, ULIDs, base64 and trace ids have, and
// otherwise a new one of 32 random hexadecimal digits. The response has it in the field of the
// same name, unless the handler sets that field, or panics. Clients choose their ids, so an id
// is no proof of anything.
//
// Handlers read it with RequestIDOf, and pass it on to the servers that they ask. AccessLog
// logs it, if it is inside.
func RequestID(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		id := ""
		if given := peek(ctx, HeaderRequestID); isRequestID(given) {
			id = string(given)
		} else {
			id = newRequestID()
		}
		ctx.SetUserValue(requestid.Key{}, id)
		ctx.Response.Header.Set(HeaderRequestID, id)
		h(ctx)
		settle(ctx, func(h *sluice.ResponseHeader) {
			if len(h.Peek(HeaderRequestID)) == 0 {
				h.Set(HeaderRequestID, id)
			}
		})
	}
}

// RequestIDOf returns the id of a request, from its RequestCtx or from a context that was
// derived of it; empty without RequestID.
func RequestIDOf(ctx context.Context) string { return requestid.Of(ctx) }

// isRequestID reports whether an id may be taken over.
func isRequestID(id []byte) bool {
	if len(id) == 0 || len(id) > maxRequestID {
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

// newRequestID returns 128 random bits.
func newRequestID() string {
	const digits = "0123456789abcdef"
	var text [32]byte
	high, low := rand.Uint64(), rand.Uint64()
	for i := range 16 {
		text[i], text[16+i] = digits[high>>(4*i)&15], digits[low>>(4*i)&15]
	}
	return string(text[:])
}
