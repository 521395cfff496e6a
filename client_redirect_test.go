package sluice

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redirecting answers the first request on the peer with a redirect, and all
// later ones with okAnswer.
func redirecting(status, location string) func(c *peerConn) {
	return func(c *peerConn) {
		for c.request() != nil {
			if len(c.peer.requests()) > 1 {
				c.send(okAnswer)
				continue
			}
			c.send("HTTP/1.1 " + status + " R\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
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
		p := newClientPeer(t, func(c *peerConn) {
			if test.method == "HEAD" {
				for r := c.request(); r != nil; r = c.request() {
					c.send(map[bool]string{true: "HTTP/1.1 " + test.status + " R\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", false: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}[len(p0(c)) == 1])
				}
				return
			}
			redirect(c)
		})
		c := p.host()
		req, resp := newCall(test.method, p.url("/a"))
		if test.method != "GET" && test.method != "HEAD" {
			req.SetBodyString("body")
			req.Header.SetContentType("text/x")
			req.Header.Set("Content-Language", "de")
		}
		err := c.DoRedirects(req, resp, 1)
		got := p.requests()
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
func p0(c *peerConn) []string { return c.peer.requests() }

// redirectNet routes all names to one peer, by the address dialed.
func redirectNet(p *clientPeer) *Client {
	return &Client{Dial: func(string) (net.Conn, error) { return net.Dial("tcp", p.addr()) }}
}

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
		var heads []*Request
		p := newClientPeer(t, func(c *peerConn) {
			for r := c.request(); r != nil; r = c.request() {
				if heads = append(heads, r); len(heads) == 1 {
					c.send("HTTP/1.1 307 R\r\nLocation: " + test.location + "\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.send(okAnswer)
				}
			}
		})
		req, resp := newCall("GET", "http://one.test/a")
		req.Header.Set("X-Other", "kept")
		secrets := []string{"Authorization", "Cookie", "Proxy-Authorization"}
		for _, name := range secrets {
			req.Header.Set(name, "secret=1")
		}
		if err := redirectNet(p).DoRedirects(req, resp, 1); err != nil || len(heads) != 2 {
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
		p := newClientPeer(t, func(c *peerConn) {
			for r := c.request(); r != nil; r = c.request() {
				auth <- string(r.Header.Peek("Authorization"))
				if len(auth) == 1 {
					c.send("HTTP/1.1 302 R\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.send(okAnswer)
				}
			}
		})
		req, resp := newCall("GET", "http://user:secret@one.test/")
		if err := redirectNet(p).DoRedirects(req, resp, 1); err != nil {
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
		p := newClientPeer(t, func(c *peerConn) {
			for r := c.request(); r != nil; r = c.request() {
				hosts <- string(r.Header.Host())
				if len(hosts) == 1 {
					c.send("HTTP/1.1 302 R\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.send(okAnswer)
				}
			}
		})
		req, resp := newCall("GET", "http://one.test/")
		req.Header.SetHost("mine")
		req.UseHostHeader = true
		if err := redirectNet(p).DoRedirects(req, resp, 1); err != nil {
			t.Fatal(err)
		}
		if first, second := <-hosts, <-hosts; first != "mine" || second != want {
			t.Errorf("%q: %q, %q; want mine, %q", location, first, second, want)
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
		"none allowed":    {"/x", 0, ErrTooManyRedirects, 1},
		"less than none":  {"/x", -1, ErrTooManyRedirects, 1},
		"a loop":          {"/x", 16, ErrTooManyRedirects, 17},
		"itself":          {"#f", 3, ErrTooManyRedirects, 4},
		"no location":     {"", 3, ErrMissingLocation, 1},
		"ftp":             {"ftp://h/", 3, errRedirectScheme, 1},
		"malformed host":  {"http://a b/", 3, InvalidHostError("a b"), 1},
		"no host":         {"http:///x", 3, errMissingHost, 1},
		"control":         {"/a\x01b", 3, nil, DefaultMaxIdemponentCallAttempts},
		"another network": {"https://h/", 3, ErrHostClientRedirectToDifferentScheme, 1},
		"app with a host": {"app://x/y", 3, errRedirectScheme, 1},
		"no scheme left":  {"http:", 3, ErrTooManyRedirects, 4},
		"none for others": {"mailto:x", 0, ErrTooManyRedirects, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newClientPeer(t, answering("HTTP/1.1 302 R\r\nLocation: "+test.location+"\r\nContent-Length: 0\r\n\r\n"))
			c := p.host()
			req, resp := newCall("GET", p.url("/"))
			err := c.DoRedirects(req, resp, test.most)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || len(p.requests()) != test.requests {
				t.Errorf("%v after %d requests", err, len(p.requests()))
			}
			eventually(t, "none in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
		})
	}
}

// TestRedirectsToOtherSchemes: a Location of a scheme that a client does not speak is
// for the caller, who gets the response and the request as they are.
func TestRedirectsToOtherSchemes(t *testing.T) {
	for _, location := range []string{"mailto:x", "mailto:", "TEL:+1;a=\"b\"", "app:/cb?x=1#y", "javascript:alert(1)", "g+h-i.j:k", "mailto:a\tb"} {
		for _, status := range []string{"301", "302", "303", "307", "308"} {
			p := newClientPeer(t, answering("HTTP/1.1 "+status+" R\r\nLocation: "+location+"\r\nContent-Length: 4\r\n\r\nmove"))
			for _, isStreamed := range []bool{false, true} {
				c := &Client{StreamResponseBody: isStreamed}
				req, resp := newCall("POST", p.url("/p"))
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
					if got, body, err := get(nil, p.url("/")); err != nil || strconv.Itoa(got) != status || string(body) != "move" {
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
		p := newClientPeer(t, redirecting("302", location))
		req, resp := newCall("GET", p.url("/a/b"))
		if err := p.host().DoRedirects(req, resp, 3); err != nil || strings.Join(p.requests(), "|") != "GET /a/b |GET "+want+" " {
			t.Errorf("%q: %v, %q, want %q", location, err, p.requests(), want)
		}
	}
}

// Get and Post follow 16.
func TestRedirectsOfGet(t *testing.T) {
	for n, want := range map[int]error{16: nil, 17: ErrTooManyRedirects} {
		p := newClientPeer(t, func(c *peerConn) {
			for c.request() != nil {
				if len(p0(c)) <= n {
					c.send("HTTP/1.1 302 R\r\nLocation: /n\r\nContent-Length: 0\r\n\r\n")
				} else {
					c.send(okAnswer)
				}
			}
		})
		var c Client
		status, body, err := c.Get(nil, p.url("/"))
		if !errors.Is(err, want) || err == nil && (status != 200 || string(body) != "ok") || err != nil && status != 302 {
			t.Errorf("%d redirects: %d, %q, %v", n, status, body, err)
		}
	}
	p := newClientPeer(t, redirecting("302", "/x"))
	var args Args
	args.Set("a", "b")
	if status, _, err := p.host().Post(nil, p.url("/"), &args); status != 200 || err != nil || strings.Join(p.requests(), "|") != "POST / a=b|GET /x " {
		t.Errorf("%d, %v, %q", status, err, p.requests())
	}
}

// A stream cannot be sent again, and need not be for a GET.
func TestRedirectBodyStream(t *testing.T) {
	for status, want := range map[string]error{"307": ErrRedirectBodyStream, "308": ErrRedirectBodyStream, "303": nil, "302": nil} {
		p := newClientPeer(t, redirecting(status, "/x"))
		req, resp := newCall("POST", p.url("/"))
		req.SetBodyStream(strings.NewReader("body"), -1)
		if err := p.host().DoRedirects(req, resp, 1); !errors.Is(err, want) {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// The time and the context of Get are for all redirects together.
func TestRedirectDeadline(t *testing.T) {
	loop := func(c *peerConn) {
		for c.request() != nil {
			if len(p0(c)) > 3 {
				c.gone()
			}
			c.send("HTTP/1.1 302 R\r\nLocation: /n\r\nContent-Length: 0\r\n\r\n")
		}
	}
	p := newClientPeer(t, loop)
	if _, _, err := p.host().GetTimeout(nil, p.url("/"), 50*time.Millisecond); err != ErrTimeout {
		t.Error(err)
	}
	p = newClientPeer(t, loop)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := p.host().GetContext(ctx, nil, p.url("/")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, left := range []time.Duration{0, -time.Hour} {
		if _, _, err := p.host().GetTimeout(nil, p.url("/"), left); err != ErrTimeout {
			t.Error(left, err)
		}
	}
}

// Redirects to https and back go to the hosts' own clients.
func TestRedirectAcrossSchemes(t *testing.T) {
	server, trusting := testTLS(t, "127.0.0.1")
	plain := newClientPeer(t, answering(okAnswer))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := newPeerOn(t, tlsListener(ln, server), answering("HTTP/1.1 302 R\r\nLocation: "+plain.url("/end")+"\r\nContent-Length: 0\r\n\r\n"))
	start := newClientPeer(t, answering("HTTP/1.1 301 R\r\nLocation: https://"+secure.addr()+"/s\r\nContent-Length: 0\r\n\r\n"))
	c := &Client{TLSConfig: trusting}
	req, resp := newCall("GET", start.url("/"))
	req.Header.Set("Authorization", "secret")
	if err := c.DoRedirects(req, resp, 2); err != nil || string(resp.Body()) != "ok" || len(c.hosts)+len(c.tlsHosts) != 3 {
		t.Errorf("%v, %q, %d hosts", err, resp.Body(), len(c.hosts))
	}
}
