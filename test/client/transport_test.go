package client_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// What becomes of the connection behind a response.
func TestTransportKeepsConnection(t *testing.T) {
	const ok10 = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"
	keepAlive := strings.Replace(ok10, "\r\n", "\r\nConnection: keep-alive\r\n", 1)
	for name, test := range map[string]struct {
		raw  string
		set  func(req *sluice.Request, resp *sluice.Response)
		body string
		kept bool
	}{
		"usual":               {harness.OKAnswer, nil, "ok", true},
		"close":               {strings.Replace(harness.OKAnswer, "\r\n", "\r\nConnection: close\r\n", 1), nil, "ok", false},
		"CLOSE in a list":     {strings.Replace(harness.OKAnswer, "\r\n", "\r\nConnection: x, CLOSE\r\n", 1), nil, "ok", false},
		"close and more":      {strings.Replace(harness.OKAnswer, "\r\n", "\r\nConnection: keep-alive, close\r\n", 1), nil, "ok", false},
		"1.0":                 {ok10, nil, "ok", false},
		"1.0 keep-alive":      {keepAlive, nil, "ok", true},
		"asked to close":      {harness.OKAnswer, func(req *sluice.Request, _ *sluice.Response) { req.SetConnectionClose() }, "ok", false},
		"SkipBody":            {harness.OKAnswer, func(_ *sluice.Request, resp *sluice.Response) { resp.SkipBody = true }, "", false},
		"SkipBody of nothing": {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", func(_ *sluice.Request, resp *sluice.Response) { resp.SkipBody = true }, "", true},
		"SkipBody of 204":     {"HTTP/1.1 204 No\r\n\r\n", func(_ *sluice.Request, resp *sluice.Response) { resp.SkipBody = true }, "", true},
		"HEAD":                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", func(req *sluice.Request, _ *sluice.Response) { req.Header.SetMethod("HEAD") }, "", true},
		"HEAD with a body":    {harness.OKAnswer, func(req *sluice.Request, _ *sluice.Response) { req.Header.SetMethod("HEAD") }, "", false},
		"HEAD, chunked":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", func(req *sluice.Request, _ *sluice.Response) { req.Header.SetMethod("HEAD") }, "", true},
		"204":                 {"HTTP/1.1 204 No\r\n\r\n", nil, "", true},
		"204 with a body":     {"HTTP/1.1 204 No\r\n\r\nx", nil, "", false},
		"304":                 {"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", nil, "", true},
		"101":                 {"HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", nil, "", false},
		"behind interim":      {"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\n" + harness.OKAnswer, nil, "ok", true},
		"two answers":         {harness.OKAnswer + harness.OKAnswer, nil, "ok", false},
		"one byte more":       {harness.OKAnswer + "\n", nil, "ok", false},
		"chunked":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", nil, "ok", true},
		"CONNECT": {"HTTP/1.1 200 OK\r\n\r\n", func(req *sluice.Request, _ *sluice.Response) {
			req.Header.SetMethod("CONNECT")
			req.SetRequestURI(string(req.URI().Host()))
		}, "", false},
		"CONNECT, framing that means nothing": {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", func(req *sluice.Request, _ *sluice.Response) {
			req.Header.SetMethod("CONNECT")
			req.SetRequestURI(string(req.URI().Host()))
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewClientPeer(t, answering(test.raw))
			c := p.Host()
			req, resp := harness.NewCall("GET", p.URL("/"))
			if test.set != nil {
				test.set(req, resp)
			}
			if err := c.Do(req, resp); err != nil || string(resp.Body()) != test.body {
				t.Errorf("%v, %q", err, resp.Body())
			}
			if n := c.IdleConnsCount(); (n == 1) != test.kept || c.ConnsCount() != n {
				t.Errorf("%d idle of %d", n, c.ConnsCount())
			}
		})
	}
}

func TestTransportLimits(t *testing.T) {
	field := "X: " + strings.Repeat("x", 3000) + "\r\n"
	head := func(n int) string {
		return "HTTP/1.1 200 OK\r\n" + strings.Repeat(field, n) + "Content-Length: 2\r\n\r\nok"
	}
	for _, test := range []struct {
		name string
		raw  string
		set  func(c *sluice.HostClient)
		want error
	}{
		{"body at the limit", harness.OKAnswer, func(c *sluice.HostClient) { c.MaxResponseBodySize = 2 }, nil},
		{"body over it", harness.OKAnswer, func(c *sluice.HostClient) { c.MaxResponseBodySize = 1 }, sluice.ErrBodyTooLarge},
		{"chunks over it", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", func(c *sluice.HostClient) { c.MaxResponseBodySize = 1 }, sluice.ErrBodyTooLarge},
		{"to the end, over it", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", func(c *sluice.HostClient) { c.MaxResponseBodySize = 1 }, sluice.ErrBodyTooLarge},
		{"large head", head(8), nil, nil},
		{"larger head", head(30), nil, sluice.ErrSmallReadBuffer},
		{"head over ReadBufferSize", head(1), func(c *sluice.HostClient) { c.ReadBufferSize = 2000 }, sluice.ErrSmallReadBuffer},
		{"head within ReadBufferSize", head(30), func(c *sluice.HostClient) { c.ReadBufferSize = 100000 }, nil},
		{"small buffers", harness.OKAnswer, func(c *sluice.HostClient) { c.ReadBufferSize, c.WriteBufferSize = 200, 1 }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); c.Send(test.raw) })
			c := p.Host()
			if test.set != nil {
				test.set(c)
			}
			req, resp := harness.NewCall("GET", p.URL("/"))
			err := c.Do(req, resp)
			var small sluice.ErrSmallBuffer
			isSmall := test.want == sluice.ErrSmallReadBuffer && errors.As(err, &small)
			if !errors.Is(err, test.want) && !isSmall || err == nil && string(resp.Body()) != "ok" {
				t.Errorf("%v, want %v", err, test.want)
			}
			want := 1
			if test.want == sluice.ErrSmallReadBuffer {
				want = sluice.DefaultMaxIdemponentCallAttempts
			}
			if len(p.Requests()) != want {
				t.Errorf("%d requests", len(p.Requests()))
			}
		})
	}
}

// The settings of the client reach what is sent and what is read.
func TestTransportNormalizing(t *testing.T) {
	for _, off := range []bool{false, true} {
		var raw string
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for line, err := c.Br.ReadString('\n'); err == nil && line != "\r\n"; line, err = c.Br.ReadString('\n') {
				raw += line
			}
			c.Send("HTTP/1.1 200 OK\r\nx-answer: 1\r\nContent-Length: 0\r\n\r\n")
		})
		c := &sluice.Client{DisableHeaderNamesNormalizing: off, DisablePathNormalizing: off}
		req, resp := new(sluice.Request), new(sluice.Response)
		if off {
			req.Header.DisableNormalizing()
		}
		req.Header.Set("x-ASKED", "1")
		req.SetRequestURI(p.URL("/a//b/../c?d#e"))
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
		path, field, answer := "/a/c?d ", "X-Asked: 1\r\n", "X-Answer"
		if off {
			path, field, answer = "/a//b/../c?d ", "x-ASKED: 1\r\n", "x-answer"
		}
		if !strings.HasPrefix(raw, "GET "+path) || !strings.Contains(raw, field) || !strings.Contains(resp.Header.String(), answer+": 1") {
			t.Errorf("off %v: sent\n%s, got\n%s", off, raw, &resp.Header)
		}
	}
}

// The addresses of the connection are the response's.
func TestTransportAddresses(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	req, resp := harness.NewCall("GET", p.URL("/"))
	if err := p.Host().Do(req, resp); err != nil || resp.RemoteAddr() == nil || resp.RemoteAddr().String() != p.Addr() || resp.LocalAddr() == nil {
		t.Errorf("%v, %v, %v", err, resp.RemoteAddr(), resp.LocalAddr())
	}
}

// Bodies around the size from which they are watched, in all forms.
func TestTransportUploads(t *testing.T) {
	for _, size := range []int{0, 1, uploadSize - 1, uploadSize, 1 << 20} {
		for name, set := range map[string]func(r *sluice.Request, body string){
			"buffered": func(r *sluice.Request, body string) { r.SetBodyString(body) },
			"sized":    func(r *sluice.Request, body string) { r.SetBodyStream(strings.NewReader(body), len(body)) },
			"chunked":  func(r *sluice.Request, body string) { r.SetBodyStream(strings.NewReader(body), -1) },
		} {
			body := strings.Repeat("b", size)
			got := make(chan string, 2)
			p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
				for r := c.Request(); r != nil; r = c.Request() {
					got <- string(r.Body())
					c.Send(harness.OKAnswer)
				}
			})
			c := p.Host()
			for range 2 {
				req, resp := harness.NewCall("POST", p.URL("/"))
				set(req, body)
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" || <-got != body {
					t.Errorf("%d, %s: %v, %q", size, name, err, resp.Body())
				}
			}
			checkPool(t, c, 1, 1)
			if p.Accepted() != 1 {
				t.Errorf("%d, %s: %d connections", size, name, p.Accepted())
			}
		}
	}
}

// TestTransportRetries: a RoundTripper of one's own that reports that another attempt may
// succeed gets it, by the rules for requests that the server may have processed.
func TestTransportRetries(t *testing.T) {
	for _, test := range []struct {
		method string
		retry  bool
		want   int
	}{{"GET", true, 3}, {"GET", false, 1}, {"POST", true, 1}} {
		attempts := 0
		c := &sluice.HostClient{Addr: "h", MaxIdemponentCallAttempts: 3, Transport: roundTripFunc(func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) {
			attempts++
			return test.retry, io.ErrUnexpectedEOF
		})}
		req, resp := harness.NewCall(test.method, "http://h/")
		if err := c.Do(req, resp); err != io.ErrUnexpectedEOF || attempts != test.want {
			t.Errorf("%+v: %v after %d attempts", test, err, attempts)
		}
	}
}

// roundTripFunc is a RoundTripper.
type roundTripFunc func(hc *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error)

func (f roundTripFunc) RoundTrip(hc *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error) {
	return f(hc, req, resp)
}

// wrappedConn is a connection in another, which tells so as *tls.Conn does.
type wrappedConn struct{ net.Conn }

// NetConn returns what is wrapped.
func (c wrappedConn) NetConn() net.Conn { return c.Conn }

// A response to HEAD ends after its head, whether it tells a length or not: the
// connection can be used further (fasthttp closes it too).
func TestHeadWithoutLengthKeepsConnection(t *testing.T) {
	p := harness.NewClientPeer(t, answering("HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"))
	c := p.Host()
	req, resp := harness.NewCall("HEAD", p.URL("/"))
	for range 3 {
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	}
	if p.Accepted() != 1 {
		t.Errorf("%d connections", p.Accepted())
	}
}

// CONNECT has a target in authority form and no other (RFC 9112 section 3.2.3).
func TestConnectByURL(t *testing.T) {
	lines := make(chan string, 1)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		line, _ := c.Br.ReadString('\n')
		lines <- line
		c.Send("HTTP/1.1 200 OK\r\n\r\n")
		c.Gone()
	})
	req, resp := harness.NewCall("CONNECT", p.URL("/"))
	if err := p.Host().Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != "CONNECT "+p.Addr()+" HTTP/1.1\r\n" {
		t.Errorf("%q", line)
	}
}

// A custom RoundTripper gets settings and errors through.
func TestTransportOfOthers(t *testing.T) {
	mine := errors.New("mine")
	calls := 0
	c := &sluice.Client{Transport: roundTripFunc(func(hc *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error) {
		if calls++; calls == 1 {
			return false, mine
		}
		resp.SetStatusCode(sluice.StatusTeapot)
		resp.SetBodyString(hc.Addr)
		return false, nil
	})}
	for _, want := range []error{mine, nil} {
		status, body, err := c.Get(nil, "http://h/")
		if err != want || err == nil && (status != sluice.StatusTeapot || string(body) != "h:80") {
			t.Errorf("%d, %q, %v", status, body, err)
		}
	}
	c = &sluice.Client{Transport: roundTripFunc(func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) { return false, io.EOF })}
	if _, _, err := c.Get(nil, "http://h/"); err != sluice.ErrConnectionClosed {
		t.Error(err)
	}
}

// A server that closes what it has just accepted has closed the connection, and
// sent nothing.
func TestClosedAtOnce(t *testing.T) {
	closed := make(chan bool)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Close(); closed <- true })
	c := p.Host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		<-closed
		if err == nil {
			if _, end := nc.Read(make([]byte, 1)); end != io.EOF {
				t.Errorf("the peer has closed, and Read returns %v", end)
			}
		}
		return nc, err
	}
	for _, method := range []string{"GET", "POST"} {
		req, resp := harness.NewCall(method, p.URL("/"))
		if err := c.Do(req, resp); !errors.Is(err, sluice.ErrConnectionClosed) {
			t.Errorf("%s: %v", method, err)
		}
	}
	checkPool(t, c, 0, 0)
}
