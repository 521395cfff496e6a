package middleware

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// A server with DisableHeaderNamesNormalizing has the names as clients have spelled them, which is in
// lower case over HTTP/2. No client gets past a middleware by that, and RealIP believes no field of the
// client's that is spelled in another way than the proxy's.
func TestNamesInAnySpelling(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, c := range map[string]struct {
		wrap   wrapper
		method string
		fields []string
		status int
		want   string // a part of the response
	}{
		"csrf, site":   {CSRF(CSRFOptions{}), "POST", []string{"sec-fetch-site: cross-site"}, 403, ""},
		"csrf, origin": {CSRF(CSRFOptions{}), "POST", []string{"origin: https://evil.example"}, 403, ""},
		"real ip":      {RealIP(RealIPOptions{Trusted: proxies}), "GET", []string{"x-forwarded-for: 203.0.113.9"}, 200, "from 203.0.113.9"},
		"real ip, two": {RealIP(RealIPOptions{Trusted: proxies}), "GET", []string{"X-Forwarded-For: 192.0.2.1", "x-forwarded-for: 203.0.113.9"}, 200, "from 203.0.113.9"},
		"request id":   {RequestID, "GET", []string{"x-request-id: id7"}, 200, "id id7"},
		"bearer":       {BearerAuth("r", Tokens(map[string]string{"t": "ann"})), "GET", []string{"authorization: Bearer t"}, 200, "user ann"},
		"basic":        {BasicAuth("r", Accounts(map[string]string{"ann": "p"})), "GET", []string{"authorization: Basic YW5uOnA="}, 200, "user ann"},
		"cors":         {CORS(CORSOptions{Origins: []string{"https://a.example"}}), "OPTIONS", []string{"origin: https://a.example", "access-control-request-method: GET"}, 204, ""},
		"etag":         {ETag, "GET", []string{"if-none-match: *"}, 304, ""},
		"etag, match":  {ETag, "GET", []string{`if-match: "x"`}, 412, ""},
	} {
		t.Run(name, func(t *testing.T) {
			handler := c.wrap(func(ctx *sluice.RequestCtx) {
				fmt.Fprintf(ctx, "from %s, id %s, user %s", ctx.RemoteIP(), RequestIDOf(ctx), UserOf(ctx))
			})
			addr := serve(t, &sluice.Server{Handler: handler, DisableHeaderNamesNormalizing: true})
			head := c.method + " / HTTP/1.1\r\nHost: h\r\nConnection: close\r\ncontent-length: 0\r\n"
			got := ask(t, addr, head+strings.Join(c.fields, "\r\n")+"\r\n\r\n")
			if !strings.HasPrefix(got, fmt.Sprint("HTTP/1.1 ", c.status)) || !strings.Contains(got, c.want) {
				t.Errorf("HTTP/1.1: want %d, %q: %q", c.status, c.want, got)
			}

			protocols := &http.Protocols{}
			protocols.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: protocols}
			defer transport.CloseIdleConnections()
			request, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range c.fields {
				key, value, _ := strings.Cut(f, ": ")
				request.Header.Add(key, value)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("%s: %s, %q, %v; want %d, %q", response.Proto, response.Status, body, err, c.status, c.want)
			}
		})
	}
}
