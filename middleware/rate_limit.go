package middleware

import (
	"bytes"
	"net"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// A Limiter counts events of keys. *shared.RateLimiter implements it for all workers of a
// machine, and contrib/redis for several machines. RateLimit calls it, for each request, from
// many goroutines.
type Limiter interface {
	// Take asks for one event of key, which it does not retain. It must not wait for long.
	Take(key []byte) shared.Quota
	// Limit returns how many events are allowed at once after a pause, and how long the pause is.
	Limit() (burst int, refill time.Duration)
}

// RateLimitOptions may be zero.
type RateLimitOptions struct {
	// Key returns for whom a request counts, valid until the handler returns: an account, a
	// token, the route. A request with an empty key is not limited. nil: the client's IPv4
	// address, or the network of 64 bits of its IPv6 address, of which one client has as many
	// addresses as it likes. Put RealIP outside behind a proxy.
	Key func(ctx *sluice.RequestCtx) []byte
	// Name is the name of the limit in the RateLimit fields, "default" if empty.
	// Several limits around a handler need different names: a response has all of them.
	Name string
}

// RateLimit returns a middleware that answers 429 to requests that limiter refuses, with
// Retry-After. Responses have the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers: how many requests are left, and when all of them will
// be; of each RateLimit that has counted the request.
//
//	limit := shared.Must(shared.Default().RateLimiter("api", shared.RateLimit{Events: 100, Per: time.Minute}))
//	handler = middleware.RateLimit(limit, middleware.RateLimitOptions{})(handler)
//
// It panics if the name has other characters than those of ASCII, or control characters, quotes or
// backslashes.
func RateLimit(limiter Limiter, o RateLimitOptions) func(sluice.RequestHandler) sluice.RequestHandler {
	if limiter == nil {
		panic("sluice: RateLimit: there is no Limiter")
	}
	burst, refill := limiter.Limit()
	name := policyName(o.Name)
	l := &rateLimit{
		limiter: limiter, key: o.Key,
		policy: []byte(name + ";q=" + strconv.Itoa(burst) + ";w=" + strconv.FormatInt(seconds(refill), 10) + ","),
		left:   name + ";r=",
	}
	if l.key == nil {
		l.key = clientNetwork
	}
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			key := l.key(ctx)
			if len(key) == 0 {
				h(ctx)
				return
			}
			q := limiter.Take(key)
			set := func(h *sluice.ResponseHeader) { l.set(h, &q) }
			if q.IsAllowed {
				set(&ctx.Response.Header)
				h(ctx)
				settle(ctx, set)
				return
			}
			ctx.Error(sluice.StatusMessage(sluice.StatusTooManyRequests), sluice.StatusTooManyRequests)
			set(&ctx.Response.Header)
			if q.RetryAfter >= 0 {
				var text [20]byte
				ctx.Response.Header.SetBytesV(sluice.HeaderRetryAfter, strconv.AppendInt(text[:0], seconds(q.RetryAfter), 10))
			}
		}
	}
}

type rateLimit struct {
	limiter Limiter
	key     func(ctx *sluice.RequestCtx) []byte
	policy  []byte // the member of RateLimit-Policy, with a comma
	left    string // that of RateLimit begins with it
}

func (l *rateLimit) set(h *sluice.ResponseHeader, q *shared.Quota) {
	var text [64]byte
	value := append(text[:0], l.left...)
	value = strconv.AppendInt(value, int64(q.Left), 10)
	value = append(value, ";t="...)
	value = strconv.AppendInt(value, seconds(q.Reset), 10)
	addMember(h, "RateLimit", append(value, ','))
	addMember(h, "RateLimit-Policy", l.policy)
}

// addMember adds a member, which begins with a name in quotes and has a comma at its end, to the list
// in a field, unless it is there: it may have been set before the handler, and a RateLimit inside or
// outside sets its own.
func addMember(h *sluice.ResponseHeader, name string, member []byte) {
	list, bare := h.Peek(name), member[:len(member)-1]
	if bytes.HasSuffix(list, bare) || bytes.Contains(list, member) {
		return
	}
	var text [128]byte
	longer := append(text[:0], list...)
	if len(list) > 0 {
		longer = append(longer, ", "...)
	}
	h.SetBytesV(name, append(longer, bare...))
}

// seconds returns d in whole seconds, rounded up: who comes back then is not refused.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// policyName returns name as a string of structured fields (RFC 9651 section 3.3.3).
func policyName(name string) string {
	if name == "" {
		name = "default"
	}
	for _, c := range []byte(name) {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			panic("sluice: RateLimitOptions.Name " + strconv.Quote(name) + " has a character that the field cannot have")
		}
	}
	return `"` + name + `"`
}

// clientNetwork returns the IPv4 address of the client, or the first 64 bits of its IPv6 address.
func clientNetwork(ctx *sluice.RequestCtx) []byte {
	ip := ctx.RemoteIP()
	if v4 := ip.To4(); v4 != nil {
		return v4
	}
	return ip[:min(len(ip), net.IPv6len/2)]
}
