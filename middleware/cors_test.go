package middleware

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// Origins that only look like an allowed one get nothing, least of all with credentials.
func TestCORSOrigins(t *testing.T) {
	own := CORSOptions{Origins: []string{"https://a.example", "http://localhost:3000", "https://*.b.example"}, Credentials: true}
	everyone := CORSOptions{Origins: []string{"*"}}
	for _, c := range []struct {
		options      CORSOptions
		origin, want string
	}{
		{own, "https://a.example", "https://a.example"},
		{own, "http://localhost:3000", "http://localhost:3000"},
		{own, "https://x.b.example", "https://x.b.example"},
		{own, "https://x.y.b.example", "https://x.y.b.example"},
		{own, "", ""},
		{own, "null", ""},
		{own, "https://evil.example", ""},
		{own, "http://a.example", ""},
		{own, "https://a.example:8443", ""},
		{own, "https://a.example.evil.example", ""},
		{own, "https://evila.example", ""},
		{own, "https://A.example", ""},
		{own, "https://b.example", ""},
		{own, "https://evilb.example", ""},
		{own, "https://.b.example", ""},
		{own, "http://x.b.example", ""},
		{own, "https://evil.example/.b.example", ""},
		{own, "https://evil.example:1.b.example", ""},
		{own, "https://evil@x.b.example", ""},
		{own, "*", ""},
		{everyone, "https://evil.example", "*"},
		{everyone, "null", "*"},
		{everyone, "", "*"},
		{CORSOptions{}, "https://a.example", ""},
	} {
		ctx := request(t, "GET / HTTP/1.1")
		if c.origin != "" {
			ctx.Request.Header.Set("Origin", c.origin)
		}
		isCalled := false
		CORS(c.options)(func(ctx *sluice.RequestCtx) {
			isCalled = true
			ctx.Response.Header.Set("Access-Control-Allow-Origin", c.origin) // as upstreams do that reflect it
			ctx.Response.Header.Set("Access-Control-Allow-Credentials", "true")
			ctx.Response.Header.Set("Vary", "Accept")
		})(ctx)
		vary, credentials := "Accept,Origin", ""
		if c.want == "*" {
			vary = "Accept"
		}
		if c.options.Credentials && c.want != "" {
			credentials = "true"
		}
		if got := field(ctx, "Access-Control-Allow-Origin"); got != c.want || field(ctx, "Vary") != vary || field(ctx, "Access-Control-Allow-Credentials") != credentials || !isCalled {
			t.Errorf("%q: %s", c.origin, &ctx.Response.Header)
		}
	}
}

func TestCORSPreflight(t *testing.T) {
	wrap := CORS(CORSOptions{Origins: []string{"https://a.example"}, Credentials: true, Methods: []string{"PUT", "DELETE"}, Headers: []string{"Content-Type", "X-Own"}, Expose: []string{"ETag"}, MaxAge: time.Hour})
	for _, c := range []struct {
		origin, asked string
		want          string // names and values of the fields of CORS, empty: the handler answers
	}{
		{"https://a.example", "PUT", "origin=https://a.example credentials=true methods=PUT, DELETE headers=Content-Type, X-Own age=3600"},
		{"https://evil.example", "PUT", "origin= credentials= methods= headers= age="},
		{"https://a.example", "", ""},
		{"", "PUT", ""},
	} {
		ctx := request(t, "OPTIONS / HTTP/1.1")
		for name, value := range map[string]string{"Origin": c.origin, "Access-Control-Request-Method": c.asked, "Access-Control-Request-Headers": "x-evil"} {
			if value != "" {
				ctx.Request.Header.Set(name, value)
			}
		}
		isCalled := false
		wrap(func(*sluice.RequestCtx) { isCalled = true })(ctx)
		if isCalled != (c.want == "") || !strings.Contains(field(ctx, "Vary"), "Origin") {
			t.Errorf("%+v: the handler is called: %v, %s", c, isCalled, &ctx.Response.Header)
		}
		if isCalled {
			continue
		}
		got := "origin=" + field(ctx, "Access-Control-Allow-Origin") + " credentials=" + field(ctx, "Access-Control-Allow-Credentials") +
			" methods=" + field(ctx, "Access-Control-Allow-Methods") + " headers=" + field(ctx, "Access-Control-Allow-Headers") + " age=" + field(ctx, "Access-Control-Max-Age")
		if got != c.want || ctx.Response.StatusCode() != 204 {
			t.Errorf("%+v: %d %s", c, ctx.Response.StatusCode(), got)
		}
	}
}

// What would open a site to everyone, or has no effect, does not start.
func TestCORSMisuse(t *testing.T) {
	for _, o := range []CORSOptions{
		{Origins: []string{"*"}, Credentials: true},
		{Origins: []string{"null"}},
		{Origins: []string{"a.example"}},
		{Origins: []string{"https://a.example/"}},
		{Origins: []string{"https://A.example"}},
		{Origins: []string{"https://"}},
		{Origins: []string{"https://*"}},
		{Origins: []string{"https://a.*.example"}},
		{Origins: []string{"https://a.example, https://b.example"}},
		{Origins: []string{""}},
		{Origins: []string{"https://a.example:443"}},
		{Origins: []string{"http://a.example:80"}},
		{Origins: []string{"https://*.a.example:443"}},
		{Origins: []string{"https://a.example:"}},
		{Origins: []string{"https://bücher.example"}},
		{Origins: []string{"https://a.example\n"}},
		{Methods: []string{"PUT DELETE"}},
		{Headers: []string{"X-A, X B"}},
		{Expose: []string{"X-A:"}},
		{Origins: []string{"https://a.example"}, Credentials: true, Methods: []string{"*"}},
		{Origins: []string{"https://a.example"}, Credentials: true, Headers: []string{"*"}},
	} {
		if message := panicOf(func() { CORS(o) }); !strings.HasPrefix(message, "sluice: CORSOptions: ") {
			t.Errorf("%+v: %q", o, message)
		}
	}
}

// A variable that is not set is a list without members.
func TestCORSLists(t *testing.T) {
	CORS(CORSOptions{Methods: []string{""}, Headers: []string{"X-A,X-B", "X-C"}, Expose: []string{"*"}})
}

// panicOf returns the value of f's panic, empty if there is none.
func panicOf(f func()) (message string) {
	defer func() { message, _ = recover().(string) }()
	f()
	return ""
}
