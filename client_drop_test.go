package sluice

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// framed is a response with a body of size bytes, in one of three framings.
func framed(head, framing string, size int) string {
	body := strings.Repeat("x", size)
	switch framing {
	case "sized":
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, size, body)
	case "chunked":
		return fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, size, body)
	}
	return head + "\r\n" + body
}

// framedAnswers is a script that answers /end, /ok, and all else with a redirect
// to /end. The latter two have a body.
func framedAnswers(framing string, size int) func(c *peerConn) {
	return func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			switch string(r.Header.RequestURI()) {
			case "/end":
				c.send(okAnswer)
				continue
			case "/ok":
				c.send(framed("HTTP/1.1 200 OK\r\n", framing, size))
			default:
				c.send(framed("HTTP/1.1 302 Found\r\nLocation: /end\r\n", framing, size))
			}
			if framing == "until the end" {
				return
			}
		}
	}
}

// An unwanted streamed body is read to its end if that is near, so that
// the connection can be used again. Its size is no error.
func TestBodiesThatNobodyWants(t *testing.T) {
	for _, test := range []struct {
		framing string
		size    int
		reuses  bool
	}{
		{"sized", 0, true}, {"sized", 1, true}, {"sized", maxDropped, true}, {"sized", maxDropped + 1, false}, {"sized", 1 << 20, false},
		{"chunked", 1, true}, {"chunked", maxDropped, true}, {"chunked", maxDropped + 1, false}, {"chunked", 1 << 20, false},
		{"until the end", 1, false}, {"until the end", 1 << 20, false},
	} {
		for name, call := range map[string]func(c *Client, url string) error{
			"Do": func(c *Client, url string) error {
				req, _ := newCall("GET", url+"ok")
				return c.Do(req, nil)
			},
			"DoTimeout, POST": func(c *Client, url string) error {
				req, _ := newCall("POST", url+"ok")
				req.SetBody(make([]byte, watchedBody))
				return c.DoTimeout(req, nil, clientPatience)
			},
			"DoRedirects without a response": func(c *Client, url string) error {
				req, _ := newCall("GET", url+"ok")
				return c.DoRedirects(req, nil, 1)
			},
			"DoRedirects": func(c *Client, url string) error {
				req, resp := newCall("GET", url+"redirect")
				if err := c.DoRedirects(req, resp, 1); err != nil {
					return err
				}
				_, err := io.Copy(io.Discard, resp.BodyStream())
				return err
			},
			"Get": func(c *Client, url string) error {
				_, body, err := c.Get(nil, url+"redirect")
				if string(body) != "ok" {
					return fmt.Errorf("%q, %w", body, err)
				}
				return err
			},
		} {
			t.Run(fmt.Sprintf("%s/%s %d", name, test.framing, test.size), func(t *testing.T) {
				p := newClientPeer(t, framedAnswers(test.framing, test.size))
				c := &Client{StreamResponseBody: true, MaxResponseBodySize: 100}
				defer c.CloseIdleConnections()
				if err := call(c, p.url("/")); err != nil {
					t.Fatal(err)
				}
				if _, _, err := c.Get(nil, p.url("/end")); err != nil {
					t.Fatal(err)
				}
				want := 2
				if test.reuses {
					want = 1
				}
				if got := p.accepted(); got != want {
					t.Errorf("%d connections, want %d", got, want)
				}
			})
		}
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
	if req.call.wants != wantsStream {
		t.Errorf("left %+v", req.call)
	}
}

// An unwanted body is not waited for longer than a second, nor longer than the
// call.
func TestBodiesThatNobodyWantsAndThatDoNotEnd(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) {
		c.request()
		c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
		c.gone()
	})
	c := p.host()
	c.StreamResponseBody = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := newCall("GET", p.url("/"))
	within(t, "a body without an end", func() {
		if err := c.Do(req, nil); err != nil {
			t.Error(err)
		}
		if err := c.DoTimeout(req, nil, 20*time.Millisecond); err != nil && err != ErrTimeout {
			t.Error(err)
		}
		go func() {
			eventually(t, "a third request", func() bool { return len(p.requests()) == 3 })
			cancel()
		}()
		_ = c.DoContext(ctx, req, nil) // whether it has ended before the head came is chance
	})
	checkPool(t, c, 0, 0)
}
