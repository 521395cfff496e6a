package client_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestClientAttempts: what may have been processed is sent again only if that
// does no harm (RFC 9110 section 9.2.2).
func TestClientAttempts(t *testing.T) {
	for _, c := range []struct {
		name, method, body string
		key                bool // there is an Idempotency-Key
		send               string
		end                ending
		repeats            bool
	}{
		{name: "GET", method: "GET", repeats: true},
		{name: "GET, reset", method: "GET", end: resets, repeats: true},
		{name: "HEAD", method: "HEAD", repeats: true},
		{name: "PUT", method: "PUT", body: "data", repeats: true},
		{name: "DELETE", method: "DELETE", repeats: true},
		{name: "OPTIONS", method: "OPTIONS", repeats: true},
		{name: "POST", method: "POST", body: "data"},
		{name: "POST, reset", method: "POST", body: "data", end: resets},
		{name: "POST without a body", method: "POST"},
		{name: "PATCH", method: "PATCH", body: "data"},
		{name: "another method", method: "BREW"},
		{name: "POST with a key", method: "POST", body: "data", key: true, repeats: true},
		{name: "half an answer", method: "GET", send: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", repeats: true},
		{name: "half a head", method: "GET", send: "HTTP/1.1 20", repeats: true},
		{name: "a bad head", method: "GET", send: "HTTP/1.1 2000 OK\r\n\r\n", repeats: true},
		{name: "POST, half a head", method: "POST", body: "data", send: "HTTP/1.1 20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRawServer(t, func(rc *rawConn, _ rawRequest) bool {
				rc.send(c.send)
				if c.end == resets {
					rc.reset()
				}
				return false
			})
			var client sluice.Client
			req := sluice.AcquireRequest()
			defer sluice.ReleaseRequest(req)
			req.Header.SetMethod(c.method)
			req.SetRequestURI(s.url("/"))
			if c.body != "" {
				req.SetBodyString(c.body)
			}
			if c.key {
				req.Header.Set("Idempotency-Key", "k")
			}
			err := client.DoTimeout(req, nil, harness.Patience)
			n := s.attempts("/")
			if err == nil || errors.Is(err, sluice.ErrTimeout) || n > 5 || n > 1 != c.repeats {
				t.Errorf("%d attempts: %v", n, err)
			}
		})
	}
}

// TestClientIdleEnds: a connection that the server has closed while it idled is
// not used for a request, so that even a POST goes well.
func TestClientIdleEnds(t *testing.T) {
	for name, end := range map[string]func(c *rawConn){
		"closed":      func(c *rawConn) { c.Close() },
		"half closed": func(c *rawConn) { _ = c.Conn.(*net.TCPConn).CloseWrite() },
		"reset":       (*rawConn).reset,
		"bytes":       func(c *rawConn) { c.send(evil) },
		"a byte":      func(c *rawConn) { c.send("\n") },
		"408 and end": func(c *rawConn) {
			c.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			release, ended := make(chan struct{}), make(chan struct{})
			s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
				c.send(hello())
				if r.path == "/first" {
					<-release
					end(c)
					close(ended)
				}
				return true
			})
			var client sluice.Client
			if got := do(&client, "GET", s.url("/first"), ""); got.err != nil {
				t.Fatal(got.err)
			}
			close(release)
			harness.Receive(t, ended)
			if got := do(&client, "POST", s.url("/next"), "data"); got.err != nil || got.body != "hello" {
				t.Errorf("the next request: %q (%v)", got.body, got.err)
			}
			if n := client.ConnsCount(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestClientLateBytesOverTLS: TLS hides what came behind an answer; it is no
// answer either.
func TestClientLateBytesOverTLS(t *testing.T) {
	certPEM, keyPEM, trust := harness.CertificateFor(t, "127.0.0.1")
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"one record":       {hello() + evil},
		"two records":      {hello(), evil},
		"chunks, a record": {chunks("5\r\nhello\r\n0\r\n\r\n") + evil},
		"many records":     {hello(), "H", "TTP", strings.TrimPrefix(evil, "HTTP")},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}, 4)
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
			if err != nil {
				t.Fatal(err)
			}
			s := &rawServer{t: t, answer: func(c *rawConn, r rawRequest) bool {
				if r.path == "/next" {
					c.send(answer200("next", "Content-Length: 4"))
					return true
				}
				for _, part := range parts {
					c.send(part)
				}
				sent <- struct{}{}
				return true
			}}
			s.serveOn(ln)
			client := sluice.Client{TLSConfig: trust}
			base := "https://" + ln.Addr().String()
			if got := do(&client, "GET", base+"/first", ""); got.err != nil || got.body != "hello" {
				t.Fatalf("%q (%v)", got.body, got.err)
			}
			harness.Receive(t, sent)
			if got := do(&client, "GET", base+"/next", ""); got.err != nil || got.body != "next" {
				t.Errorf("the next request: %q (%v)", got.body, got.err)
			}
			got, after := do(&client, "GET", base+"/next", ""), client.ConnsCount()
			if got.err != nil || got.body != "next" || after != 1 {
				t.Errorf("the one after: %q (%v), %d connections", got.body, got.err, after)
			}
		})
	}
}

// TestClientAnswerBeforeTheRequest: what is there before the first byte of a
// request is no answer to it (RFC 9112 section 9.2), on a new connection too.
func TestClientAnswerBeforeTheRequest(t *testing.T) {
	greeted := make(chan struct{}, 64)
	s := &rawServer{t: t}
	s.greet = func(c *rawConn) {
		if c.n == 1 {
			c.send(evil)
		}
		greeted <- struct{}{}
	}
	s.answer = func(c *rawConn, _ rawRequest) bool {
		c.send(hello())
		return true
	}
	s.start()
	client := sluice.Client{Dial: func(addr string) (net.Conn, error) {
		c, err := net.Dial("tcp", addr)
		harness.Receive(t, greeted)
		return c, err
	}}
	if got := do(&client, "GET", s.url("/"), ""); got.err != nil || got.body != "hello" {
		t.Errorf("the request that goes out on another connection: %q (%v)", got.body, got.err)
	}
	if got := do(&client, "GET", s.url("/"), ""); got.err != nil || got.body != "hello" {
		t.Errorf("the next request: %q (%v)", got.body, got.err)
	}
}

// TestClientEarlyAnswers: a server that refuses a request before it has read the
// body is heard.
func TestClientEarlyAnswers(t *testing.T) {
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n"
	body := strings.Repeat("z", 8<<20)
	for name, answer := range map[string]func(c *rawConn) (goOn bool){
		"the end follows": func(c *rawConn) bool {
			c.send(refusal + "Connection: close\r\n\r\nbig")
			c.halfClose()
			return false
		},
		"a reset follows": func(c *rawConn) bool {
			c.send(refusal + "Connection: close\r\n\r\nbig")
			c.Close() // with unread bytes, that is a reset
			return false
		},
		"line ends and spaces are in front": func(c *rawConn) bool {
			c.send("\r\n\r\nHTTP/1.1 103 Early\r\nX-A: b\r\n\r\n\r\nHTTP/1.1   " + strings.TrimPrefix(refusal, "HTTP/1.1 ") + "\r\nbig")
			_, err := io.CopyN(io.Discard, c.br, int64(len(body)))
			return err == nil
		},
		"the body is read all the same": func(c *rawConn) bool {
			c.send(refusal + "\r\nbig")
			_, err := io.CopyN(io.Discard, c.br, int64(len(body)))
			return err == nil
		},
		"nothing is read any more": func(c *rawConn) bool {
			c.send(refusal + "\r\nbig")
			_, _ = io.ReadFull(c.br, make([]byte, 1))
			time.Sleep(300 * time.Millisecond) // the case: a server that is busy with other things
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
				if r.path == "/next" {
					c.send(hello())
					return true
				}
				return answer(c)
			})
			var client sluice.Client
			got := do(&client, "POST", s.url(lazyPath), body)
			if got.err != nil || got.status != 413 || got.body != "big" {
				t.Errorf("%d %q (%v)", got.status, got.body, got.err)
			}
			if n := s.attempts(lazyPath); n != 1 {
				t.Errorf("%d attempts", n)
			}
			if got := do(&client, "POST", s.url("/next"), "data"); got.err != nil || got.body != "hello" {
				t.Errorf("the next request: %q (%v)", got.body, got.err)
			}
		})
	}
}

// TestClientEarlySuccess: an answer that begins before the body is sent does not
// keep the client from sending the rest.
func TestClientEarlySuccess(t *testing.T) {
	body := strings.Repeat("z", 8<<20)
	read := make(chan int64, 1)
	s := newRawServer(t, func(c *rawConn, _ rawRequest) bool {
		c.send(hello())
		n, _ := io.Copy(io.Discard, io.LimitReader(c.br, int64(len(body))))
		read <- n
		return true
	})
	var client sluice.Client
	if got := do(&client, "POST", s.url(lazyPath), body); got.err != nil || got.body != "hello" {
		t.Fatalf("%q (%v)", got.body, got.err)
	}
	if n := harness.Receive(t, read); n != int64(len(body)) {
		t.Errorf("the server has read %d bytes of %d", n, len(body))
	}
}

// TestClientResponseOfHEADAgain: a Response that was a HEAD's has a body with
// the next GET.
func TestClientResponseOfHEADAgain(t *testing.T) {
	s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
		if strings.HasPrefix(r.head, "HEAD") {
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			return true
		}
		c.send(hello())
		return true
	})
	var client sluice.Client
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.SetRequestURI(s.url("/"))
	for _, method := range []string{"GET", "HEAD", "GET"} {
		want := "hello"
		if method == "HEAD" {
			want = ""
		}
		req.Header.SetMethod(method)
		if err := client.DoTimeout(req, resp, harness.Patience); err != nil || string(resp.Body()) != want {
			t.Errorf("%s: %q (%v), want %q", method, resp.Body(), err, want)
		}
	}
}

// TestClientReadTimeoutOnce: a big request waits for its answer as long as a
// small one: ReadTimeout, once.
func TestClientReadTimeoutOnce(t *testing.T) {
	s := newRawServer(t, func(c *rawConn, _ rawRequest) bool {
		c.drain()
		return false
	})
	for name, body := range map[string]string{"small": "data", "big": strings.Repeat("z", 256<<10)} {
		var timeouts atomic.Int32
		client := sluice.Client{ReadTimeout: 50 * time.Millisecond, Dial: func(addr string) (net.Conn, error) {
			c, err := net.Dial("tcp", addr)
			return &countingTimeouts{Conn: c, n: &timeouts}, err
		}}
		if got := do(&client, "POST", s.url("/"), body); !errors.Is(got.err, sluice.ErrTimeout) {
			t.Errorf("%s: %v, want ErrTimeout", name, got.err)
		}
		if n := timeouts.Load(); n != 1 {
			t.Errorf("%s: the time-out has passed %d times", name, n)
		}
	}
}

// countingTimeouts counts the reads that took too long.
type countingTimeouts struct {
	net.Conn
	n *atomic.Int32
}

func (c *countingTimeouts) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		c.n.Add(1)
	}
	return n, err
}

// TestClientRelativeRedirect: a Location that is relative to the directory, of
// whatever length, leads there and does not harm the client.
func TestClientRelativeRedirect(t *testing.T) {
	for location, want := range map[string]string{
		"b":                                    "/dir/b",
		"bbbbbbbbbbbbbbbbbbbbbbb":              "/dir/bbbbbbbbbbbbbbbbbbbbbbb",
		"./b":                                  "/dir/b",
		"../b":                                 "/b",
		"b/../c?d=e#f":                         "/dir/c?d=e",
		"?d=e":                                 "/dir/first?d=e",
		"b?d":                                  "/dir/b?d",
		strings.Repeat("b", 10_000):            "/dir/" + strings.Repeat("b", 10_000),
		"b/" + strings.Repeat("../", 50) + "c": "/c",
	} {
		t.Run(fmt.Sprintf("%.30s", location), func(t *testing.T) {
			s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
				if r.path == "/dir/first" {
					c.send("HTTP/1.1 302 Found\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
					return true
				}
				c.send(hello())
				return true
			})
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("the Location makes the client panic: %v", r)
				}
			}()
			var client sluice.Client
			_, body, err := client.GetTimeout(nil, s.url("/dir/first"), harness.Patience)
			all := s.requests()
			if got := all[len(all)-1].path; err != nil || string(body) != "hello" || got != want {
				t.Errorf("leads to %.60s (%v), want %.60s", got, err, want)
			}
		})
	}
}
