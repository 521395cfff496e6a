package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	"github.com/sluicehttp/sluice/test/harness"
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
func framedAnswers(framing string, size int) func(c *harness.PeerConn) {
	return func(c *harness.PeerConn) {
		for r := c.Request(); r != nil; r = c.Request() {
			switch string(r.Header.RequestURI()) {
			case "/end":
				c.Send(harness.OKAnswer)
				continue
			case "/ok":
				c.Send(framed("HTTP/1.1 200 OK\r\n", framing, size))
			default:
				c.Send(framed("HTTP/1.1 302 Found\r\nLocation: /end\r\n", framing, size))
			}
			if framing == "until the end" {
				return
			}
		}
	}
}

// An unwanted streamed body is read to its end if its length says that this is near, so
// that the connection can be used again. Its size is no error.
func TestBodiesThatNobodyWants(t *testing.T) {
	for _, test := range []struct {
		framing string
		size    int
		reuses  bool
	}{
		{"sized", 0, true}, {"sized", 1, true}, {"sized", http1client.MaxDropped, true}, {"sized", http1client.MaxDropped + 1, false}, {"sized", 1 << 20, false},
		{"chunked", 1, false}, {"chunked", 1 << 20, false},
		{"until the end", 1, false}, {"until the end", 1 << 20, false},
	} {
		for name, call := range map[string]func(c *sluice.Client, url string) error{
			"Do": func(c *sluice.Client, url string) error {
				req, _ := harness.NewCall("GET", url+"ok")
				return c.Do(req, nil)
			},
			"DoTimeout, POST": func(c *sluice.Client, url string) error {
				req, _ := harness.NewCall("POST", url+"ok")
				req.SetBody(make([]byte, uploadSize))
				return c.DoTimeout(req, nil, clientPatience)
			},
			"DoRedirects without a response": func(c *sluice.Client, url string) error {
				req, _ := harness.NewCall("GET", url+"ok")
				return c.DoRedirects(req, nil, 1)
			},
			"DoRedirects": func(c *sluice.Client, url string) error {
				req, resp := harness.NewCall("GET", url+"redirect")
				if err := c.DoRedirects(req, resp, 1); err != nil {
					return err
				}
				_, err := io.Copy(io.Discard, resp.BodyStream())
				return err
			},
			"Get": func(c *sluice.Client, url string) error {
				_, body, err := c.Get(nil, url+"redirect")
				if string(body) != "ok" {
					return fmt.Errorf("%q, %w", body, err)
				}
				return err
			},
		} {
			t.Run(fmt.Sprintf("%s/%s %d", name, test.framing, test.size), func(t *testing.T) {
				p := harness.NewClientPeer(t, framedAnswers(test.framing, test.size))
				c := &sluice.Client{StreamResponseBody: true, MaxResponseBodySize: http1client.MaxDropped}
				defer c.CloseIdleConnections()
				if err := call(c, p.URL("/")); err != nil {
					t.Fatal(err)
				}
				if _, _, err := c.Get(nil, p.URL("/end")); err != nil {
					t.Fatal(err)
				}
				want := 2
				if test.reuses {
					want = 1
				}
				if got := p.Accepted(); got != want {
					t.Errorf("%d connections, want %d", got, want)
				}
			})
		}
	}
}

// An unwanted body of more than MaxResponseBodySize is not read, except that of a
// redirect that is followed.
func TestUnwantedBodiesOverTheLimit(t *testing.T) {
	for path, want := range map[string]int{"/ok": 2, "/redirect": 1} {
		p := harness.NewClientPeer(t, framedAnswers("sized", 101))
		c := &sluice.Client{StreamResponseBody: true, MaxResponseBodySize: 100}
		req, _ := harness.NewCall("GET", p.URL(path))
		if err := c.DoRedirects(req, nil, 1); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, _, err := c.Get(nil, p.URL("/end")); err != nil || p.Accepted() != want {
			t.Errorf("%s: %v, %d connections, want %d", path, err, p.Accepted(), want)
		}
		c.CloseIdleConnections()
	}
}

// An unwanted body is not waited for longer than a second, nor longer than the
// call.
func TestBodiesThatNobodyWantsAndThatDoNotEnd(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
		c.Gone()
	})
	c := p.Host()
	c.StreamResponseBody = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := harness.NewCall("GET", p.URL("/"))
	within(t, "a body without an end", func() {
		if err := c.Do(req, nil); err != nil {
			t.Error(err)
		}
		if err := c.DoTimeout(req, nil, 20*time.Millisecond); err != nil && err != sluice.ErrTimeout {
			t.Error(err)
		}
		sent := len(p.Requests()) // two, or one if the time was over before
		go func() {
			eventually(t, "one more request", func() bool { return len(p.Requests()) > sent })
			cancel()
		}()
		_ = c.DoContext(ctx, req, nil) // whether it has ended before the head came is chance
	})
	checkPool(t, c, 0, 0)
}

// breakingOff is a script that closes the connection after its answer.
func breakingOff(answer string) func(c *harness.PeerConn) {
	return func(c *harness.PeerConn) {
		c.Request()
		c.Send(answer)
	}
}

// A short unwanted body whose length is known breaks off: an error, that is
// repeated as others are. Of a longer one, and of one whose length is not known,
// nobody is told.
func TestUnwantedBodiesThatBreakOff(t *testing.T) {
	for answer, want := range map[string]struct {
		err            error
		requests, post int
	}{
		"HTTP/1.1 200 OK\r\nContent-Length: 8192\r\n\r\nx":            {io.ErrUnexpectedEOF, 5, 1},
		"HTTP/1.1 200 OK\r\nContent-Length: 8193\r\n\r\nx":            {nil, 1, 1},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx": {nil, 1, 1},
	} {
		for method, requests := range map[string]int{"GET": want.requests, "POST": want.post} {
			p := harness.NewClientPeer(t, breakingOff(answer))
			c := p.Host()
			c.StreamResponseBody = true
			req, _ := harness.NewCall(method, p.URL("/"))
			if err := c.Do(req, nil); !errors.Is(err, want.err) || want.err == nil && err != nil {
				t.Errorf("%s %q: %v", method, answer, err)
			}
			if got := len(p.Requests()); got != requests {
				t.Errorf("%s %q: %d requests, want %d", method, answer, got, requests)
			}
			checkPool(t, c, 0, 0)
		}
	}
	p := harness.NewClientPeer(t, breakingOff("HTTP/1.1 200 OK\r\nContent-Length: 8192\r\n\r\nx"))
	c := p.Host()
	c.StreamResponseBody = true
	req, _ := harness.NewCall("POST", p.URL("/"))
	if err := c.DoRedirects(req, nil, 1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("DoRedirects: %v", err)
	}
}

// Get and Post return what had come of a body that breaks off.
func TestGetReturnsWhatCame(t *testing.T) {
	for _, isStream := range []bool{false, true} {
		p := harness.NewClientPeer(t, breakingOff("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"))
		c := p.Host()
		c.StreamResponseBody = isStream
		for name, call := range map[string]func() (int, []byte, error){
			"Get":        func() (int, []byte, error) { return c.Get([]byte("before"), p.URL("/")) },
			"Post":       func() (int, []byte, error) { return c.Post([]byte("before"), p.URL("/"), nil) },
			"GetTimeout": func() (int, []byte, error) { return c.GetTimeout([]byte("before"), p.URL("/"), clientPatience) },
		} {
			if status, body, err := call(); status != 0 || string(body) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, stream %v: %d, %q, %v", name, isStream, status, body, err)
			}
		}
	}
}
