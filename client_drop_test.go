package sluice

import (
	"testing"
)

// The response of a redirect that is not followed is the caller's.
func TestRedirectThatIsNotFollowedKeepsItsStream(t *testing.T) {
	p := newClientPeer(t, answering("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nok"))
	c := &Client{StreamResponseBody: true}
	req, resp := newCall("GET", p.url("/"))
	if err := c.DoRedirects(req, resp, 1); err != ErrTooManyRedirects || string(resp.Body()) != "ok" {
		t.Errorf("%q, %v", resp.Body(), err)
	}
	if req.call != nil {
		t.Errorf("left %+v", req.call)
	}
}
