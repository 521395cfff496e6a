package middleware

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// Whatever net/http's CrossOriginProtection refuses is refused, and nothing else.
func TestCSRFAsNetHTTP(t *testing.T) {
	trusted := []string{"https://trusted.example", "http://trusted.example:8080"}
	reference := http.NewCrossOriginProtection()
	for _, origin := range trusted {
		if err := reference.AddTrustedOrigin(origin); err != nil {
			t.Fatal(err)
		}
	}
	reference.AddInsecureBypassPattern("/hook")
	refused, cases := 0, 0
	wrap := CSRF(CSRFOptions{Origins: trusted, Bypass: func(ctx *sluice.RequestCtx) bool { return string(ctx.Path()) == "/hook" }})
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"} {
		for _, path := range []string{"/", "/hook", "/hook/", "/hook?x"} {
			for _, host := range []string{"example.com", "example.com:8080", "[2001:db8::1]:80"} {
				for _, site := range []string{"", "same-origin", "none", "same-site", "cross-site", "SAME-ORIGIN", "x"} {
					for _, origin := range []string{
						"", "null", "https://example.com", "http://example.com", "https://example.com:8080", "https://[2001:db8::1]:80", "https://evil.example",
						"https://example.com.evil.example", "https://trusted.example", "http://trusted.example", "http://trusted.example:8080", "https://TRUSTED.example", "example.com", "https://",
					} {
						r := httptest.NewRequest(method, "http://"+host+path, nil)
						ctx := request(t, method+" "+path+" HTTP/1.1", "Host: "+host)
						for name, value := range map[string]string{"Sec-Fetch-Site": site, "Origin": origin} {
							if value != "" {
								r.Header.Set(name, value)
								ctx.Request.Header.Set(name, value)
							}
						}
						isCalled := false
						wrap(func(*sluice.RequestCtx) { isCalled = true })(ctx)
						isAllowed := reference.Check(r) == nil
						if isCalled != isAllowed {
							t.Errorf("%s %s, Host %s, Sec-Fetch-Site %q, Origin %q: allowed %v, net/http %v", method, path, host, site, origin, isCalled, isAllowed)
						}
						if !isCalled && ctx.Response.StatusCode() != 403 {
							t.Errorf("refused with %d", ctx.Response.StatusCode())
						}
						if cases++; !isAllowed {
							refused++
						}
					}
				}
			}
		}
	}
	t.Logf("%d of %d requests are refused by both", refused, cases)
	if refused == 0 || refused == cases {
		t.Error("nothing is compared")
	}
}

func TestCSRFOptions(t *testing.T) {
	ctx := request(t, "POST / HTTP/1.1", "Sec-Fetch-Site: cross-site")
	CSRF(CSRFOptions{Deny: func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(418) }})(answer("in"))(ctx)
	if ctx.Response.StatusCode() != 418 {
		t.Error(ctx.Response.StatusCode())
	}
	for _, origin := range []string{"", "*", "null", "example.com", "https://example.com/", "https://*.example.com"} {
		if message := panicOf(func() { CSRF(CSRFOptions{Origins: []string{origin}}) }); !strings.HasPrefix(message, "sluice: CSRFOptions: ") {
			t.Errorf("%q: %q", origin, message)
		}
	}
}
