package sluice

import (
	"net"
	"testing"
)

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
		"ftp":             {"ftp://h/", 3, textError("sluice: the redirect's scheme is neither http nor https"), 1},
		"malformed host":  {"http://a b/", 3, InvalidHostError("a b"), 1},
		"no host":         {"http:///x", 3, textError("sluice: the request has no host"), 1},
		"control":         {"/a\x01b", 3, nil, DefaultMaxIdemponentCallAttempts},
		"another network": {"https://h/", 3, ErrHostClientRedirectToDifferentScheme, 1},
		"app with a host": {"app://x/y", 3, textError("sluice: the redirect's scheme is neither http nor https"), 1},
		"no scheme left":  {"http:", 3, ErrTooManyRedirects, 4},
		"none for others": {"mailto:x", 0, ErrTooManyRedirects, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newClientPeer(t, answering("HTTP/1.1 302 R\r\nLocation: "+test.location+"\r\nContent-Length: 0\r\n\r\n"))
			c := p.host()
			req, resp := newCall("GET", p.url("/"))
			err := c.DoRedirects(req, resp, test.most)
			if err == nil || test.want != nil && !isError(err, test.want) || len(p.requests()) != test.requests {
				t.Errorf("%v after %d requests", err, len(p.requests()))
			}
			eventually(t, "none in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
		})
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
	hosts := 0
	c := &Client{TLSConfig: trusting, ConfigureClient: func(*HostClient) error { hosts++; return nil }}
	req, resp := newCall("GET", start.url("/"))
	req.Header.Set("Authorization", "secret")
	if err := c.DoRedirects(req, resp, 2); err != nil || string(resp.Body()) != "ok" || hosts != 3 {
		t.Errorf("%v, %q, %d hosts", err, resp.Body(), hosts)
	}
}

// The response of a redirect that is not followed is the caller's.
func TestRedirectThatIsNotFollowedKeepsItsStream(t *testing.T) {
	p := newClientPeer(t, answering("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nok"))
	c := &Client{StreamResponseBody: true}
	req, resp := newCall("GET", p.url("/"))
	if err := c.DoRedirects(req, resp, 1); err != ErrTooManyRedirects || string(resp.Body()) != "ok" {
		t.Errorf("%q, %v", resp.Body(), err)
	}
	// What DoRedirects wanted of bodies does not stay with the request.
	if err := c.Do(req, resp); err != nil || !resp.IsBodyStream() || string(resp.Body()) != "ok" {
		t.Errorf("then %q, %v", resp.Body(), err)
	}
}
