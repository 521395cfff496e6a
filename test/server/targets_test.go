package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// writable is path and query as RFC 3986 sections 3.3 and 3.4 allow them, with
// "[" and "]".
var writable = regexp.MustCompile(`^/([A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]]|%[0-9A-Fa-f]{2})*$`)

// rawTargets are targets that clients send although RFC 3986 does not allow them,
// with the decoded path, the value of q, and the URI as it is written again.
var rawTargets = []struct{ target, path, q, written string }{
	{"/?q=50%", "/", "50%", "/?q=50%25"},
	{"/?q=%&a=%4&b=%zz", "/", "%", "/?q=%25&a=%254&b=%25zz"},
	{"/?q=50%%41", "/", "50%A", "/?q=50%25%41"},
	{"/?q=café", "/", "café", "/?q=caf%C3%A9"},
	{"/?q=\xff\x80", "/", "\xff\x80", "/?q=%FF%80"},
	{`/?q="x"`, "/", `"x"`, "/?q=%22x%22"},
	{"/?q=<b>", "/", "<b>", "/?q=%3Cb%3E"},
	{"/?q=|^`{}\\", "/", "|^`{}\\", "/?q=%7C%5E%60%7B%7D%5C"},
	{"/?q=a?b/[c]", "/", "a?b/[c]", "/?q=a?b/[c]"},
	{"/café/\xff", "/café/\xff", "", "/caf%C3%A9/%FF"},
	{"/%C3%A9é/../é", "/é", "", "/%C3%A9"},
	{"/\"<>|^`{}[]", "/\"<>|^`{}[]", "", "/%22%3C%3E%7C%5E%60%7B%7D%5B%5D"},
	{"/é?q=é%", "/é", "é%", "/%C3%A9?q=%C3%A9%25"},
}

// TestRawTargets: what browsers, curl and others send is served; RequestURI has
// the bytes that came, and what is written again is valid by RFC 3986.
func TestRawTargets(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			uri := ctx.URI()
			fmt.Fprintf(ctx, "%q %q %q %q %q\n", ctx.RequestURI(), uri.PathOriginal(), uri.QueryString(), ctx.Path(), uri.String())
			fmt.Fprintf(ctx, "%q %q %s", ctx.QueryArgs().Peek("q"), ctx.RequestURI(), written(t, ctx))
		}})
		for _, c := range rawTargets {
			for _, prefix := range []string{"", "http://h"} {
				want := []string{fmt.Sprintf("%q %q", c.path, "http://h"+c.written), fmt.Sprintf("%q %q", c.q, prefix+c.target)}
				path, query, _ := strings.Cut(c.target, "?")
				want = append(want, fmt.Sprintf("%q %q %q %s", prefix+c.target, path, query, want[0]))
				got := r.Dial().Get(prefix + c.target)
				if got.StatusCode != 200 || !strings.HasPrefix(got.Body, want[2]+"\n"+want[1]+" ") || !writable.MatchString(c.written) {
					t.Errorf("%q: %d %s\nwant %s\n%s", prefix+c.target, got.StatusCode, got.Body, want[2], want[1])
				}
			}
		}
	})
}

// written passes a request on as proxies do, and says that all request lines
// have a target that RFC 3986 allows.
func written(t *testing.T, ctx *sluice.RequestCtx) string {
	for name, pass := range map[string]func(req *sluice.Request){
		"the whole request": func(req *sluice.Request) { ctx.Request.CopyTo(req) },
		"RequestURI":        func(req *sluice.Request) { req.SetRequestURIBytes(ctx.RequestURI()); req.Header.SetHost("h") },
		"SetRequestURI and SetHost": func(req *sluice.Request) {
			req.SetRequestURIBytes(ctx.RequestURI())
			req.SetHost("h")
		},
		"the path as it came": func(req *sluice.Request) {
			req.SetRequestURIBytes(ctx.RequestURI())
			req.SetHost("h")
			req.URI().DisablePathNormalizing = true
		},
		"URI":         func(req *sluice.Request) { req.SetURI(ctx.URI()) },
		"pairs":       func(req *sluice.Request) { req.SetURI(ctx.URI()); req.URI().QueryArgs().Add("more", "%é\"") },
		"URI as text": func(req *sluice.Request) { req.SetRequestURI(ctx.URI().String()) },
	} {
		var req sluice.Request
		pass(&req)
		var wire bytes.Buffer
		w := bufio.NewWriter(&wire)
		if err := req.Write(w); err != nil {
			t.Errorf("%q, %s: %v", ctx.RequestURI(), name, err)
			continue
		}
		w.Flush()
		line, _, _ := strings.Cut(wire.String(), "\r\n")
		words := strings.Split(line, " ")
		if len(words) != 3 || !writable.MatchString(strings.TrimPrefix(words[1], "http://h")) {
			t.Errorf("%q, %s: request line %q", ctx.RequestURI(), name, line)
		}
		if u, err := url.ParseRequestURI(words[1]); err != nil || u.Path != string(ctx.Path()) && name != "the path as it came" &&
			!strings.Contains(words[1], "..") {
			t.Errorf("%q, %s: %q means %v, %v", ctx.RequestURI(), name, words[1], u, err)
		}
	}
	return "passed on"
}

// TestTargetsThatAreRefused: what could end a target or its line, or means two
// things, is still answered 400.
func TestTargetsThatAreRefused(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: answering("served")})
		for _, target := range []string{
			"/50%", "/%zz", "/%4?q", "/é%", "/a#b", "/?a#b", "/?é#", "/a b", "/?a b", "/a\tb", "/?a\tb", "/?\x00", "/\x1f", "/?\x7f", "/é\x7f", "/?a\rb",
			"http://é/", "http://h\"/", "http://h%/", "é", "?q=é",
		} {
			if got := r.Dial().Get(target); got.StatusCode != 400 || !got.Close {
				t.Errorf("%q: %d %s, close %v", target, got.StatusCode, got.Body, got.Close)
			}
		}
	})
}

// TestRawTargetsInLocations: a Location made of a raw target is a valid one.
func TestRawTargetsInLocations(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.RedirectBytes(append([]byte("/to"), ctx.RequestURI()...), 302)
	}})
	for _, c := range rawTargets {
		location := r.Dial().Get(c.target).Header.Get("Location")
		if rest := strings.TrimPrefix(location, "http://h"); rest == location || !writable.MatchString(rest) {
			t.Errorf("%q: Location %q", c.target, location)
		}
	}
}
