package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/message"
)

// choose returns the upstream for the next attempt, which has no upstream that the request
// was sent to before, if possible.
func (x *exchange) choose() balance.Pick[*upstream] {
	var weigh func(*upstream) uint64
	switch o := &x.proxy.options; {
	case o.Balance == Hash:
		weigh = x.weighKey
		if len(x.tried) > 0 {
			break // the key is known
		}
		if o.Key != nil {
			x.key = hashOf(o.Key(x.ctx))
		} else {
			x.key = hashOf(message.AppendClient(x.scratch[:0], x.taker.RemoteAddrPort().Addr()))
		}
	case o.Balance == Sticky:
		if cookie := x.ctx.Request.Header.Cookie(o.Cookie); len(cookie) > 0 {
			x.cookie, weigh = string(cookie), x.weighCookie
		}
	}
	pick, _ := x.proxy.group.PickBy(x.tried, weigh) // there is one: New has checked that
	return pick
}

// weighKey orders the upstreams for a key.
func (x *exchange) weighKey(u *upstream) uint64 { return mix(u.seed ^ x.key) }

// weighCookie prefers the upstream that the cookie names.
func (x *exchange) weighCookie(u *upstream) uint64 {
	if u.id == x.cookie {
		return 1
	}
	return 0
}

// stick sets the cookie of Sticky, unless the client has it.
func (x *exchange) stick(u *upstream) {
	if x.proxy.options.Balance != Sticky || x.cookie == u.id {
		return
	}
	cookie := sluice.AcquireCookie()
	defer sluice.ReleaseCookie(cookie)
	cookie.SetKey(x.proxy.options.Cookie)
	cookie.SetValue(u.id)
	cookie.SetPath("/")
	cookie.SetHTTPOnly(true)
	cookie.SetSecure(x.ctx.IsTLS())
	cookie.SetSameSite(sluice.CookieSameSiteLaxMode)
	x.ctx.Response.Header.SetCookie(cookie)
}

// stickyID returns the value of the cookie of Sticky for an upstream. It does not
// reveal the upstream to those who do not have the key.
func stickyID(key, name string) string {
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte(name))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// hashOf is FNV-1a, whose result is mixed.
func hashOf[T string | []byte](key T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return mix(h)
}

// mix makes every bit of h count for every bit of the result.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
