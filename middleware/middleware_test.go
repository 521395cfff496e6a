package middleware

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

type wrapper = func(sluice.RequestHandler) sluice.RequestHandler

// request returns a RequestCtx with a request whose head has these lines, from 192.0.2.7.
func request(t testing.TB, head ...string) *sluice.RequestCtx {
	t.Helper()
	var r sluice.Request
	if !strings.Contains(strings.Join(head, "\n"), "Host:") {
		head = append(head, "Host: example.com")
	}
	if err := r.Read(bufio.NewReaderSize(strings.NewReader(strings.Join(head, "\r\n")+"\r\n\r\n"), 64<<10)); err != nil {
		t.Fatal(head, err)
	}
	ctx := &sluice.RequestCtx{}
	ctx.Init(&r, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5}, quiet{})
	return ctx
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func field(ctx *sluice.RequestCtx, name string) string {
	return string(ctx.Response.Header.Peek(name))
}

func answer(text string) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) { ctx.SetBodyString(text) }
}

// serve serves until the test ends, and returns the address.
func serve(t *testing.T, server *sluice.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if server.Logger == nil {
		server.Logger = quiet{}
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close()
		_ = server.Shutdown()
		<-served
	})
	return ln.Addr().String()
}

// ask sends input and returns what comes until the end.
func ask(t *testing.T, addr, input string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, input); err != nil {
		t.Fatal(err)
	}
	all, _ := io.ReadAll(conn)
	return string(all)
}

const get = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

func TestUse(t *testing.T) {
	var order string
	note := func(name string) wrapper {
		return func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) { order += name; h(ctx); order += name }
		}
	}
	Use(func(*sluice.RequestCtx) { order += "h" }, note("a"), note("b"), note("c"))(request(t, "GET / HTTP/1.1"))
	if order != "abchcba" {
		t.Error(order)
	}
}

// Fields that a middleware sets are on the response, whatever the handler makes of it.
func TestSettledFields(t *testing.T) {
	for name, wrap := range map[string]struct {
		wrapper
		field, value string
	}{
		"request id": {RequestID, HeaderRequestID, "given"},
		"cors":       {CORS(CORSOptions{Origins: []string{"https://a.example"}}), "Access-Control-Allow-Origin", "https://a.example"},
		"vary":       {CORS(CORSOptions{Origins: []string{"https://a.example"}}), "Vary", "Origin"},
		"secure":     {SecureHeaders(nil), "X-Content-Type-Options", "nosniff"},
		"rate limit": {RateLimit(fixedLimit{}, RateLimitOptions{}), "Ratelimit", `"default";r=4;t=31`},
	} {
		for how, handler := range map[string]sluice.RequestHandler{
			"body":     answer("ok"),
			"error":    func(ctx *sluice.RequestCtx) { ctx.Error("no", 500) },
			"reset":    func(ctx *sluice.RequestCtx) { ctx.Response.Reset() },
			"time-out": func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") },
			"stream":   func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("x"), -1) },
			"flush":    func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); ctx.SetBodyString("rest") },
		} {
			addr := serve(t, &sluice.Server{Handler: wrap.wrapper(handler)})
			got := ask(t, addr, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Request-Id: given\r\nOrigin: https://a.example\r\n\r\n")
			if n := strings.Count(got, "\r\n"+wrap.field+": "+wrap.value+"\r\n"); n != 1 {
				t.Errorf("%s, %s: %d fields in %q", name, how, n, got)
			}
		}
	}
}

// The own fields replace and remove others, however their names are written.
func TestSecureHeadersOwn(t *testing.T) {
	ctx := request(t, "GET / HTTP/1.1")
	SecureHeaders(map[string]string{
		"x-frame-options": "SAMEORIGIN", "referrer-policy": "", "X-Content-Type-Options": "", "Strict-Transport-Security": "max-age=60",
	})(answer("ok"))(ctx)
	for name, want := range map[string]string{
		"X-Frame-Options": "SAMEORIGIN", "Referrer-Policy": "", "X-Content-Type-Options": "", "Strict-Transport-Security": "max-age=60",
		"Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := field(ctx, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What each request goes through does not allocate.
func TestAllocations(t *testing.T) {
	credentials := "Authorization: Bearer token"
	for name, c := range map[string]struct {
		wrap wrapper
		head []string
	}{
		"recover":        {Recover(nil), nil},
		"secure headers": {SecureHeaders(nil), nil},
		"cors":           {CORS(CORSOptions{Origins: []string{"https://a.example"}, Credentials: true, Expose: []string{"ETag"}}), []string{"Origin: https://a.example"}},
		"cors preflight": {CORS(CORSOptions{Origins: []string{"https://a.example"}, Methods: []string{"PUT"}, MaxAge: time.Hour}), []string{"Origin: https://a.example", "Access-Control-Request-Method: PUT"}},
		"csrf":           {CSRF(CSRFOptions{Origins: []string{"https://a.example"}}), []string{"Origin: https://a.example", "Sec-Fetch-Site: cross-site"}},
		"rate limit":     {RateLimit(newLimiter(t, 1000), RateLimitOptions{}), nil},
		"bearer":         {BearerAuth("r", Tokens(map[string]string{"token": "x"})), []string{credentials}},
		"body limit":     {BodyLimit(10), nil},
		"etag":           {ETag, []string{`If-None-Match: "x"`}},
		"health":         {Health(nil), nil},
		"real ip, none":  {RealIP(RealIPOptions{}), []string{"X-Forwarded-For: 1.2.3.4"}},
	} {
		method := "GET"
		if name == "cors preflight" {
			method = "OPTIONS"
		}
		ctx := request(t, append([]string{method + " / HTTP/1.1"}, c.head...)...)
		handler := c.wrap(answer("ok"))
		if n := testing.AllocsPerRun(100, func() { ctx.Response.Reset(); handler(ctx) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
