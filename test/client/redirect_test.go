package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// redirecting answers the first request on the peer with a redirect, and all
// later ones with okAnswer.
func redirecting(status, location string) func(c *harness.PeerConn) {
	return func(c *harness.PeerConn) {
		for c.Request() != nil {
			if len(c.Peer.Requests()) > 1 {
				c.Send(harness.OKAnswer)
				continue
			}
			c.Send("HTTP/1.1 " + status + " R\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
		}
	}
}

func TestRedirectMethodAndBody(t *testing.T) {
	for _, test := range []struct{ status, method, want string }{
		{"301", "GET", "GET /x "}, {"302", "GET", "GET /x "}, {"303", "GET", "GET /x "}, {"307", "GET", "GET /x "}, {"308", "GET", "GET /x "},
		{"301", "POST", "GET /x "}, {"302", "POST", "GET /x "}, {"303", "POST", "GET /x "}, {"307", "POST", "POST /x body"}, {"308", "POST", "POST /x body"},
		{"301", "PUT", "PUT /x body"}, {"302", "PUT", "PUT /x body"}, {"303", "PUT", "GET /x "}, {"307", "PUT", "PUT /x body"},
		{"301", "DELETE", "DELETE /x body"}, {"303", "DELETE", "GET /x "}, {"302", "PATCH", "PATCH /x body"}, {"303", "QUERY", "GET /x "}, {"302", "QUERY", "QUERY /x body"},
		{"303", "HEAD", "HEAD /x "}, {"301", "HEAD", "HEAD /x "},
		{"300", "GET", ""}, {"304", "GET", ""}, {"305", "GET", ""}, {"306", "GET", ""},
	} {
		redirect := redirecting(test.status, "/x")
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			if test.method == "HEAD" {
				for r := c.Request(); r != nil; r = c.Request() {
					c.Send(map[bool]string{true: "HTTP/1.1 " + test.status + " R\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", false: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}[len(p0(c)) == 1])
				}
				return
			}
			redirect(c)
		})
		c := p.Host()
		req, resp := harness.NewCall(test.method, p.URL("/a"))
		if test.method != "GET" && test.method != "HEAD" {
			req.SetBodyString("body")
			req.Header.SetContentType("text/x")
			req.Header.Set("Content-Language", "de")
		}
		err := c.DoRedirects(req, resp, 1)
		got := p.Requests()
		want := 2
		if test.want == "" {
			want = 1
		}
		if err != nil || len(got) != want || want == 2 && got[1] != test.want {
			t.Errorf("%s %s: %v, %q", test.status, test.method, err, got)
		}
		if kept := len(req.Header.Peek("Content-Language")) > 0; want == 2 && kept != strings.HasSuffix(test.want, "body") {
			t.Errorf("%s %s: Content-Language kept: %v", test.status, test.method, kept)
		}
		if open, idle := c.ConnsCount(), c.IdleConnsCount(); open != 1 || idle != 1 {
			t.Errorf("%s %s: %d open, %d idle", test.status, test.method, open, idle)
		}
	}
}

// p0 returns the requests that came to the peer of c.
func p0(c *harness.PeerConn) []string { return c.Peer.Requests() }

func TestRedirectCredentialsAndHost(t *testing.T) {
	for _, test := range []struct {
		location    string
		host        string
		credentials bool
	}{
		{"/x", "one.test", true},
		{"http://one.test/x", "one.test", true},
		{"http://ONE.test:80/x", "one.test:80", true},
		{"//one.test/x", "one.test", true},
		{"http://one.test:81/x", "one.test:81", false},
		{"http://two.test/x", "two.test", false},
		{"http://sub.one.test/x", "sub.one.test", false},
		{"http://test/x", "test", false},
		{"//two.test/x", "two.test", false},
		{"http://u:p@two.test/x", "two.test", false},
		{"http://one.test@two.test/x", "two.test", false},
	} {
		var heads []*sluice.Request
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for r := c.Request(); r != nil; r = c.Request() {
				if heads = append(heads, r); len(heads) == 1 {
					c.Send("HTTP/1.1 307 R\r\nLocation: " + test.location + "\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.Send(harness.OKAnswer)
				}
			}
		})
		req, resp := harness.NewCall("GET", "http://one.test/a")
		req.Header.Set("X-Other", "kept")
		secrets := []string{"Authorization", "Cookie", "Proxy-Authorization"}
		for _, name := range secrets {
			req.Header.Set(name, "secret=1")
		}
		if err := harness.RedirectNet(p).DoRedirects(req, resp, 1); err != nil || len(heads) != 2 {
			t.Errorf("%q: %v, %d requests", test.location, err, len(heads))
			continue
		}
		h := &heads[1].Header
		for _, name := range secrets {
			if got := len(h.Peek(name)) > 0; got != test.credentials {
				t.Errorf("%q: %s sent: %v", test.location, name, got)
			}
		}
		if string(h.Host()) != test.host || string(h.Peek("X-Other")) != "kept" {
			t.Errorf("%q: Host %q, X-Other %q", test.location, h.Host(), h.Peek("X-Other"))
		}
	}
}

// User information of the URL is a credential too.
func TestRedirectUserInformation(t *testing.T) {
	for location, sent := range map[string]bool{"/x": true, "http://one.test/x": true, "http://two.test/x": false} {
		auth := make(chan string, 2)
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for r := c.Request(); r != nil; r = c.Request() {
				auth <- string(r.Header.Peek("Authorization"))
				if len(auth) == 1 {
					c.Send("HTTP/1.1 302 R\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.Send(harness.OKAnswer)
				}
			}
		})
		req, resp := harness.NewCall("GET", "http://user:secret@one.test/")
		if err := harness.RedirectNet(p).DoRedirects(req, resp, 1); err != nil {
			t.Fatal(err)
		}
		if first, second := <-auth, <-auth; first == "" || (second != "") != sent {
			t.Errorf("%q: %q, %q", location, first, second)
		}
	}
}

// A Host of the caller's own is for the origin that it was set for.
func TestRedirectUseHostHeader(t *testing.T) {
	for location, want := range map[string]string{"/x": "mine", "http://two.test/x": "two.test"} {
		hosts := make(chan string, 2)
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for r := c.Request(); r != nil; r = c.Request() {
				hosts <- string(r.Header.Host())
				if len(hosts) == 1 {
					c.Send("HTTP/1.1 302 R\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.Send(harness.OKAnswer)
				}
			}
		})
		req, resp := harness.NewCall("GET", "http://one.test/")
		req.Header.SetHost("mine")
		req.UseHostHeader = true
		if err := harness.RedirectNet(p).DoRedirects(req, resp, 1); err != nil {
			t.Fatal(err)
		}
		if first, second := <-hosts, <-hosts; first != "mine" || second != want {
			t.Errorf("%q: %q, %q; want mine, %q", location, first, second, want)
		}
	}
}

// TestRedirectsToOtherSchemes: a Location of a scheme that a client does not speak is
// for the caller, who gets the response and the request as they are.
func TestRedirectsToOtherSchemes(t *testing.T) {
	for _, location := range []string{"mailto:x", "mailto:", "TEL:+1;a=\"b\"", "app:/cb?x=1#y", "javascript:alert(1)", "g+h-i.j:k", "mailto:a\tb"} {
		for _, status := range []string{"301", "302", "303", "307", "308"} {
			p := harness.NewClientPeer(t, answering("HTTP/1.1 "+status+" R\r\nLocation: "+location+"\r\nContent-Length: 4\r\n\r\nmove"))
			for _, isStreamed := range []bool{false, true} {
				c := &sluice.Client{StreamResponseBody: isStreamed}
				req, resp := harness.NewCall("POST", p.URL("/p"))
				req.SetBodyString("body")
				req.Header.Set("Authorization", "secret")
				if err := c.DoRedirects(req, resp, 3); err != nil || strconv.Itoa(resp.StatusCode()) != status || resp.IsBodyStream() != isStreamed || string(resp.Body()) != "move" {
					t.Errorf("%s, %q, streamed %v: %v, %d, %q", status, location, isStreamed, err, resp.StatusCode(), resp.Body())
				}
				if string(req.Header.Method()) != "POST" || string(req.Body()) != "body" || string(req.Header.Peek("Authorization")) != "secret" || string(req.URI().Path()) != "/p" {
					t.Errorf("%s, %q: the request is %q", status, location, req.String())
				}
				for name, get := range map[string]func([]byte, string) (int, []byte, error){
					"Get": c.Get, "Post": func(dst []byte, url string) (int, []byte, error) { return c.Post(dst, url, nil) },
					"GetTimeout": func(dst []byte, url string) (int, []byte, error) { return c.GetTimeout(dst, url, time.Minute) },
				} {
					if got, body, err := get(nil, p.URL("/")); err != nil || strconv.Itoa(got) != status || string(body) != "move" {
						t.Errorf("%s, %q, %s: %d, %q, %v", status, location, name, got, body, err)
					}
				}
				if err := c.DoRedirects(req, nil, 3); err != nil {
					t.Errorf("%s, %q, no response: %v", status, location, err)
				}
			}
		}
	}
}

// TestRedirectsWithAScheme: what only looks like another scheme is followed as
// URI.Update resolves it.
func TestRedirectsWithAScheme(t *testing.T) {
	for location, want := range map[string]string{
		"http:x": "/a/x", "HTTP:/x": "/x", "http:?q": "/a/b?q", "http:http:x": "/a/http:x", "https:/x": "/a/https:/x", "https:x": "/a/https:x",
		":x": "/a/:x", "1a:b": "/a/1a:b", "x y:z": "/a/x%20y:z", "./g:h": "/a/g:h", "?a:b": "/a/b?a:b",
	} {
		p := harness.NewClientPeer(t, redirecting("302", location))
		req, resp := harness.NewCall("GET", p.URL("/a/b"))
		if err := p.Host().DoRedirects(req, resp, 3); err != nil || strings.Join(p.Requests(), "|") != "GET /a/b |GET "+want+" " {
			t.Errorf("%q: %v, %q, want %q", location, err, p.Requests(), want)
		}
	}
}

// Get and Post follow 16.
func TestRedirectsOfGet(t *testing.T) {
	for n, want := range map[int]error{16: nil, 17: sluice.ErrTooManyRedirects} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for c.Request() != nil {
				if len(p0(c)) <= n {
					c.Send("HTTP/1.1 302 R\r\nLocation: /n\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.Send(harness.OKAnswer)
				}
			}
		})
		var c sluice.Client
		status, body, err := c.Get(nil, p.URL("/"))
		if !errors.Is(err, want) || err == nil && (status != 200 || string(body) != "ok") || err != nil && status != 302 {
			t.Errorf("%d redirects: %d, %q, %v", n, status, body, err)
		}
	}
	p := harness.NewClientPeer(t, redirecting("302", "/x"))
	var args sluice.Args
	args.Set("a", "b")
	if status, _, err := p.Host().Post(nil, p.URL("/"), &args); status != 200 || err != nil || strings.Join(p.Requests(), "|") != "POST / a=b|GET /x " {
		t.Errorf("%d, %v, %q", status, err, p.Requests())
	}
}

// A stream cannot be sent again, and need not be for a GET.
func TestRedirectBodyStream(t *testing.T) {
	for status, want := range map[string]error{"307": sluice.ErrRedirectBodyStream, "308": sluice.ErrRedirectBodyStream, "303": nil, "302": nil} {
		p := harness.NewClientPeer(t, redirecting(status, "/x"))
		req, resp := harness.NewCall("POST", p.URL("/"))
		req.SetBodyStream(strings.NewReader("body"), -1)
		if err := p.Host().DoRedirects(req, resp, 1); !errors.Is(err, want) {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// The time and the context of Get are for all redirects together.
func TestRedirectDeadline(t *testing.T) {
	loop := func(c *harness.PeerConn) {
		for c.Request() != nil {
			if len(p0(c)) > 3 {
				c.Gone()
			}
			c.Send("HTTP/1.1 302 R\r\nLocation: /n\r\nContent-Length: 0\r\n\r\n")
		}
	}
	p := harness.NewClientPeer(t, loop)
	if _, _, err := p.Host().GetTimeout(nil, p.URL("/"), 50*time.Millisecond); err != sluice.ErrTimeout {
		t.Error(err)
	}
	p = harness.NewClientPeer(t, loop)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := p.Host().GetContext(ctx, nil, p.URL("/")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, left := range []time.Duration{0, -time.Hour} {
		if _, _, err := p.Host().GetTimeout(nil, p.URL("/"), left); err != sluice.ErrTimeout {
			t.Error(left, err)
		}
	}
}

// A Location that is neither absolute nor begins with a slash is resolved from
// the scratch memory of the URI, where it is not.
func TestRelativeRedirects(t *testing.T) {
	for location, want := range map[string]string{
		"b": "/dir/b", "b/../c": "/dir/c", "../up": "/up", "./x?y=1": "/dir/x?y=1", "b#f": "/dir/b",
		"?q=2": "/dir/a?q=2", "/abs": "/abs",
	} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.Request()
			c.Send("HTTP/1.1 302 Found\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
			answering(harness.OKAnswer)(c)
		})
		req, resp := harness.NewCall("GET", p.URL("/dir/a?x=1"))
		err := p.Host().DoRedirects(req, resp, 1)
		if got := p.Requests(); err != nil || len(got) != 2 || got[1] != "GET "+want+" " {
			t.Errorf("%q: %v, %q, want %q", location, err, got, want)
		}
	}
}

// The same: what looks like no scheme is taken for a path, and a Location that
// is longer than the scratch memory is a panic that any server can cause.
func TestRedirectsDoNotPanic(t *testing.T) {
	for _, location := range []string{"javascript:alert(1)", strings.Repeat("long/", 200)} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.Request()
			c.Send("HTTP/1.1 302 Found\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
			answering(harness.OKAnswer)(c)
		})
		func() {
			defer func() {
				if v := recover(); v != nil {
					t.Errorf("%.20q: panic: %v", location, v)
				}
			}()
			req, resp := harness.NewCall("GET", p.URL("/"))
			_ = p.Host().DoRedirects(req, resp, 1)
		}()
	}
}

// DisableRedirectPathNormalizing is set on the URI, and then reset by update.
func TestRedirectPathAsGiven(t *testing.T) {
	for _, location := range []string{"/a//b/../c", "http://HOST/a//b/../c"} {
		var p *harness.ClientPeer
		p = harness.NewClientPeer(t, func(c *harness.PeerConn) {
			c.Request()
			c.Send("HTTP/1.1 302 Found\r\nLocation: " + strings.Replace(location, "HOST", p.Addr(), 1) + "\r\nContent-Length: 0\r\n\r\n")
			answering(harness.OKAnswer)(c)
		})
		req, resp := harness.NewCall("GET", p.URL("/"))
		req.DisableRedirectPathNormalizing = true
		err := p.Host().DoRedirects(req, resp, 1)
		if got := p.Requests(); err != nil || len(got) != 2 || got[1] != "GET /a//b/../c " {
			t.Errorf("%q: %v, %q", location, err, got)
		}
	}
}

func TestRedirectErrors(t *testing.T) {
	for name, test := range map[string]struct {
		location string
		most     int
		want     error
		requests int
	}{
		"none allowed":    {"/x", 0, sluice.ErrTooManyRedirects, 1},
		"less than none":  {"/x", -1, sluice.ErrTooManyRedirects, 1},
		"a loop":          {"/x", 16, sluice.ErrTooManyRedirects, 17},
		"itself":          {"#f", 3, sluice.ErrTooManyRedirects, 4},
		"no location":     {"", 3, sluice.ErrMissingLocation, 1},
		"ftp":             {"ftp://h/", 3, textError("sluice: the redirect's scheme is neither http nor https"), 1},
		"malformed host":  {"http://a b/", 3, sluice.InvalidHostError("a b"), 1},
		"no host":         {"http:///x", 3, textError("sluice: the request has no host"), 1},
		"control":         {"/a\x01b", 3, nil, sluice.DefaultMaxIdemponentCallAttempts},
		"another network": {"https://h/", 3, sluice.ErrHostClientRedirectToDifferentScheme, 1},
		"app with a host": {"app://x/y", 3, textError("sluice: the redirect's scheme is neither http nor https"), 1},
		"no scheme left":  {"http:", 3, sluice.ErrTooManyRedirects, 4},
		"none for others": {"mailto:x", 0, sluice.ErrTooManyRedirects, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewClientPeer(t, answering("HTTP/1.1 302 R\r\nLocation: "+test.location+"\r\nContent-Length: 0\r\n\r\n"))
			c := p.Host()
			req, resp := harness.NewCall("GET", p.URL("/"))
			err := c.DoRedirects(req, resp, test.most)
			if err == nil || test.want != nil && !isError(err, test.want) || len(p.Requests()) != test.requests {
				t.Errorf("%v after %d requests", err, len(p.Requests()))
			}
			eventually(t, "none in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
		})
	}
}

// Redirects to https and back go to the hosts' own clients.
func TestRedirectAcrossSchemes(t *testing.T) {
	server, trusting := harness.TLSConfigs(t, "127.0.0.1")
	plain := harness.NewClientPeer(t, answering(harness.OKAnswer))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := harness.NewPeerOn(t, tls.NewListener(ln, server), answering("HTTP/1.1 302 R\r\nLocation: "+plain.URL("/end")+"\r\nContent-Length: 0\r\n\r\n"))
	start := harness.NewClientPeer(t, answering("HTTP/1.1 301 R\r\nLocation: https://"+secure.Addr()+"/s\r\nContent-Length: 0\r\n\r\n"))
	hosts := 0
	c := &sluice.Client{TLSConfig: trusting, ConfigureClient: func(*sluice.HostClient) error { hosts++; return nil }}
	req, resp := harness.NewCall("GET", start.URL("/"))
	req.Header.Set("Authorization", "secret")
	if err := c.DoRedirects(req, resp, 2); err != nil || string(resp.Body()) != "ok" || hosts != 3 {
		t.Errorf("%v, %q, %d hosts", err, resp.Body(), hosts)
	}
}

// The response of a redirect that is not followed is the caller's.
func TestRedirectThatIsNotFollowedKeepsItsStream(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nok"))
	c := &sluice.Client{StreamResponseBody: true}
	req, resp := harness.NewCall("GET", p.URL("/"))
	if err := c.DoRedirects(req, resp, 1); err != sluice.ErrTooManyRedirects || string(resp.Body()) != "ok" {
		t.Errorf("%q, %v", resp.Body(), err)
	}
	// What DoRedirects wanted of bodies does not stay with the request.
	if err := c.Do(req, resp); err != nil || !resp.IsBodyStream() || string(resp.Body()) != "ok" {
		t.Errorf("then %q, %v", resp.Body(), err)
	}
}

// The redirect at which Get ends is its result, whatever the reason.
func TestGetReturnsTheRedirectThatItDoesNotFollow(t *testing.T) {
	for location, requests := range map[string]int{"/x": 17, "": 1, "ftp://h/": 1, "http://a b/": 1, "//h:99999/": 1} {
		for _, isStreamed := range []bool{false, true} {
			p := harness.NewClientPeer(t, answering("HTTP/1.1 302 R\r\nLocation: "+location+"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"))
			c := &sluice.Client{StreamResponseBody: isStreamed}
			want := "body"
			if isStreamed && location != "" && requests == 1 {
				want = "" // the redirect was to be followed
			}
			status, body, err := c.Get(nil, p.URL("/"))
			if status != 302 || string(body) != want || err == nil || len(p.Requests()) != requests {
				t.Errorf("%q, streamed %v: %d, %q, %v after %d requests", location, isStreamed, status, body, err, len(p.Requests()))
			}
			c.CloseIdleConnections()
		}
	}
}

// A redirect without a Location is the caller's, too.
func TestRedirectWithoutLocationKeepsItsStream(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 302 Found\r\nContent-Length: 2\r\n\r\nok"))
	c := &sluice.Client{StreamResponseBody: true}
	req, resp := harness.NewCall("GET", p.URL("/"))
	if err := c.DoRedirects(req, resp, 1); err != sluice.ErrMissingLocation || string(resp.Body()) != "ok" {
		t.Errorf("%q, %v", resp.Body(), err)
	}
}
