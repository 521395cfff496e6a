package middleware

import (
	"net/netip"
	"strings"
	"testing"
)

// Options that have no effect, or would panic in a request, do not start. No message has a secret.
func TestMisuse(t *testing.T) {
	for name, start := range map[string]func(){
		"basic":          func() { BasicAuth("r", nil) },
		"bearer":         func() { BearerAuth("r", nil) },
		"account, colon": func() { Accounts(map[string]string{"an:n": "hidden"}) },
		"account, user":  func() { Accounts(map[string]string{"ann\n": "hidden"}) },
		"password":       func() { Accounts(map[string]string{"ann": "hidden\n"}) },
		"token":          func() { Tokens(map[string]string{"": "ann"}) },
		"token, LF":      func() { Tokens(map[string]string{"hidden\n": "ann"}) },
		"token, space":   func() { Tokens(map[string]string{"hid den": "ann"}) },
		"limiter":        func() { RateLimit(nil, RateLimitOptions{}) },
		"network":        func() { RealIP(RealIPOptions{Trusted: []netip.Prefix{{}}}) },
		"header":         func() { RealIP(RealIPOptions{Header: "X Real Ip"}) },
		"name":           func() { SecureHeaders(map[string]string{"X Frame": "DENY"}) },
		"value":          func() { SecureHeaders(map[string]string{"X-Frame-Options": "DENY\nX: y"}) },
	} {
		if message := panicOf(start); !strings.HasPrefix(message, "sluice: ") || strings.Contains(message, "hid") {
			t.Errorf("%s: %q", name, message)
		}
	}
	Accounts(map[string]string{"ü": "ß: x", "": "p"})
	Tokens(map[string]string{"aA0-._~+/==": ""})
	SecureHeaders(map[string]string{"X-None": "", "X-Tab": "a\tb", "x-Ü": ""})
}
