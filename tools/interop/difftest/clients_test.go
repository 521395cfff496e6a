package difftest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// An answerer is a server of clients that are compared. It sends what answer
// returns for the request with that number, counted from 1, and then closes the
// connection if closes says so.
type answerer struct {
	net.Listener
	requests atomic.Int32
	conns    atomic.Int32
	answer   func(number int) (raw string, closes bool)
}

// serveEach listens on an address of this machine until the test ends, and calls
// serve for each connection on a goroutine of its own.
func serveEach(t *testing.T, serve func(c net.Conn)) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return ln
}

// newAnswerer starts a server, which ends with the test.
func newAnswerer(t *testing.T, answer func(number int) (raw string, closes bool)) *answerer {
	t.Helper()
	a := &answerer{answer: answer}
	a.Listener = serveEach(t, func(c net.Conn) {
		a.conns.Add(1)
		a.serve(c)
	})
	return a
}

func (a *answerer) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		raw, closes := a.answer(int(a.requests.Add(1)))
		if raw == silence {
			_, _ = br.Peek(1)
			return
		}
		if _, err := io.WriteString(c, raw); err != nil || closes {
			return
		}
	}
}

func (a *answerer) url() string { return "http://" + a.Addr().String() + "/" }

// silence is an answer that does not come.
const silence = "silence"

// TestClientRepeats: which failures of reading a response are followed by
// another attempt (4.1).
func TestClientRepeats(t *testing.T) {
	answers := map[string]string{
		"nothing":            "",
		"silence":            silence,
		"garbage":            "garbage\r\n\r\n",
		"one byte":           "H",
		"half a head":        "HTTP/1.1 200 OK\r\nConte",
		"bad length":         "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"half a body":        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
		"half a chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx",
		"broken chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nx",
		"no last chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
		"interim":            "HTTP/1.1 100 Continue\r\n\r\n",
		"too large":          "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + strings.Repeat("x", 99),
		"head too large":     "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 99<<10) + "\r\n\r\n",
		"too large, chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n63\r\n" + strings.Repeat("x", 99) + "\r\n0\r\n\r\n",
	}
	cases := map[string]func() (answer, method, retryIf string){}
	for name := range answers {
		for _, method := range []string{"GET", "POST"} {
			for _, retryIf := range []string{"", "yes", "no"} {
				cases[strings.TrimSpace(method+", "+name+" "+retryIf)] = func() (string, string, string) { return answers[name], method, retryIf }
			}
		}
	}
	known := differences{}
	for name := range cases {
		if strings.Contains(name, "no last chunk") || strings.Contains(name, "interim") {
			known[name] = "cut off is io.ErrUnexpectedEOF, not the end (D10)"
		}
	}
	known["GET, silence"] = "a time-out is not repeated (L33)"
	compare(t, names(cases), known,
		func(name string) string {
			raw, method, retryIf := cases[name]()
			a := newAnswerer(t, func(int) (string, bool) { return raw, true })
			asked := 0
			c := &fasthttp.HostClient{Addr: a.Addr().String(), MaxResponseBodySize: 50, ReadTimeout: timeoutOf(raw)}
			if retryIf != "" {
				c.RetryIf = func(*fasthttp.Request) bool { asked++; return retryIf == "yes" }
			}
			var req fasthttp.Request
			var resp fasthttp.Response
			req.Header.SetMethod(method)
			req.SetRequestURI(a.url())
			err := c.Do(&req, &resp)
			return fmt.Sprint(err != nil, errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, fasthttp.ErrConnectionClosed), a.requests.Load(), a.conns.Load(), asked)
		},
		func(name string) string {
			raw, method, retryIf := cases[name]()
			a := newAnswerer(t, func(int) (string, bool) { return raw, true })
			asked := 0
			c := &sluice.HostClient{Addr: a.Addr().String(), MaxResponseBodySize: 50, ReadTimeout: timeoutOf(raw)}
			if retryIf != "" {
				c.RetryIf = func(*sluice.Request) bool { asked++; return retryIf == "yes" }
			}
			var req sluice.Request
			var resp sluice.Response
			req.Header.SetMethod(method)
			req.SetRequestURI(a.url())
			err := c.Do(&req, &resp)
			return fmt.Sprint(err != nil, errors.Is(err, sluice.ErrBodyTooLarge), errors.Is(err, sluice.ErrConnectionClosed), a.requests.Load(), a.conns.Load(), asked)
		})
}

// TestClientRepeatedMethods: which requests are sent again on a new connection when
// there is no answer.
func TestClientRepeatedMethods(t *testing.T) {
	start := func() *answerer { return newAnswerer(t, func(int) (string, bool) { return "", true }) }
	compare(t, lines("GET|HEAD|PUT|QUERY|POST|PATCH|DELETE|OPTIONS|TRACE"), differences{}.and("L22", "DELETE", "OPTIONS", "TRACE"),
		func(method string) string {
			a := start()
			var req fasthttp.Request
			req.Header.SetMethod(method)
			req.SetRequestURI(a.url())
			err := new(fasthttp.Client).Do(&req, new(fasthttp.Response))
			return fmt.Sprint(err != nil, a.requests.Load())
		},
		func(method string) string {
			a := start()
			var req sluice.Request
			req.Header.SetMethod(method)
			req.SetRequestURI(a.url())
			err := new(sluice.Client).Do(&req, new(sluice.Response))
			return fmt.Sprint(err != nil, a.requests.Load())
		})
}

// TestClientGetReads: Get and Post read a streamed body within the attempt (4.1).
func TestClientGetReads(t *testing.T) {
	start := func() *answerer {
		return newAnswerer(t, func(number int) (string, bool) {
			if number < 3 {
				return "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", true
			}
			return "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", true
		})
	}
	compare(t, []string{"Get", "Post"}, nil,
		func(name string) string {
			a := start()
			c := &fasthttp.HostClient{Addr: a.Addr().String(), StreamResponseBody: true}
			if name == "Post" {
				_, body, err := c.Post(nil, a.url(), nil)
				return result(string(body), err) + fmt.Sprint(a.requests.Load())
			}
			_, body, err := c.Get(nil, a.url())
			return result(string(body), err) + fmt.Sprint(a.requests.Load())
		},
		func(name string) string {
			a := start()
			c := &sluice.HostClient{Addr: a.Addr().String(), StreamResponseBody: true}
			if name == "Post" {
				_, body, err := c.Post(nil, a.url(), nil)
				return result(string(body), err) + fmt.Sprint(a.requests.Load())
			}
			_, body, err := c.Get(nil, a.url())
			return result(string(body), err) + fmt.Sprint(a.requests.Load())
		})
}

// timeoutOf bounds waiting for an answer that does not come.
func timeoutOf(raw string) time.Duration {
	if raw == silence {
		return 20 * time.Millisecond
	}
	return 0
}

// TestClientDrops: what becomes of a connection with a streamed body that no caller
// wants (4.2).
func TestClientDrops(t *testing.T) {
	const redirect = "HTTP/1.1 302 Found\r\nLocation: /x\r\n"
	const ok = "HTTP/1.1 200 OK\r\n"
	sized := func(head string, size int) string {
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, size, strings.Repeat("x", size))
	}
	chunked := func(head string, size int) string {
		return fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, size, strings.Repeat("x", size))
	}
	cases := map[string]string{
		"Do, 8192": sized(ok, 8192), "Do, 8193": sized(ok, 8193), "Do, 0": sized(ok, 0), "Do, chunked": chunked(ok, 9), "Do, chunked, 8193": chunked(ok, 8193),
		"redirect, 8192": sized(redirect, 8192), "redirect, 8193": sized(redirect, 8193), "redirect, chunked": chunked(redirect, 9),
		"redirect, chunked, 8193": chunked(redirect, 8193),
	}
	start := func(name string) *answerer {
		return newAnswerer(t, func(number int) (string, bool) {
			if number == 1 {
				return cases[name], false
			}
			return sized(ok, 0), false
		})
	}
	compare(t, names(cases), nil,
		func(name string) string {
			a := start(name)
			c := &fasthttp.HostClient{Addr: a.Addr().String(), StreamResponseBody: true, MaxResponseBodySize: 5000}
			var req fasthttp.Request
			req.SetRequestURI(a.url())
			var err error
			if strings.HasPrefix(name, "Do") {
				err = c.Do(&req, nil)
			} else {
				err = c.DoRedirects(&req, nil, 1)
			}
			_, _, err2 := c.Get(nil, a.url())
			return fmt.Sprint(err != nil, err2 != nil, a.requests.Load(), a.conns.Load())
		},
		func(name string) string {
			a := start(name)
			c := &sluice.HostClient{Addr: a.Addr().String(), StreamResponseBody: true, MaxResponseBodySize: 5000}
			var req sluice.Request
			req.SetRequestURI(a.url())
			var err error
			if strings.HasPrefix(name, "Do") {
				err = c.Do(&req, nil)
			} else {
				err = c.DoRedirects(&req, nil, 1)
			}
			_, _, err2 := c.Get(nil, a.url())
			return fmt.Sprint(err != nil, err2 != nil, a.requests.Load(), a.conns.Load())
		})
}

// TestClientStreamClosed: a streamed body can be closed with an error (4.3).
func TestClientStreamClosed(t *testing.T) {
	cases := map[string]struct {
		read int
		err  error
	}{
		"all": {5, nil}, "all, error": {5, io.ErrNoProgress}, "some": {2, nil}, "some, error": {2, io.ErrNoProgress}, "nothing": {0, nil},
	}
	describe := func(name string, stream any, conns func() int) string {
		s, ok := stream.(fasthttp.ReadCloserWithError) // ours has the same methods
		if !ok {
			return "cannot be closed with an error"
		}
		_, readErr := io.ReadFull(s, make([]byte, cases[name].read))
		closeErr := s.CloseWithError(cases[name].err)
		n, err := s.Read(make([]byte, 1))
		return fmt.Sprint(readErr, closeErr, n, errors.Is(err, io.ErrClosedPipe), conns())
	}
	answer := func(int) (string, bool) { return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false }
	compare(t, names(cases), nil,
		func(name string) string {
			a := newAnswerer(t, answer)
			c := &fasthttp.HostClient{Addr: a.Addr().String(), StreamResponseBody: true}
			var req fasthttp.Request
			var resp fasthttp.Response
			req.SetRequestURI(a.url())
			if err := c.Do(&req, &resp); err != nil {
				return err.Error()
			}
			return describe(name, resp.BodyStream(), c.ConnsCount)
		},
		func(name string) string {
			a := newAnswerer(t, answer)
			c := &sluice.HostClient{Addr: a.Addr().String(), StreamResponseBody: true}
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI(a.url())
			if err := c.Do(&req, &resp); err != nil {
				return err.Error()
			}
			return describe(name, resp.BodyStream(), c.ConnsCount)
		})
}

// TestClientHandshakeTimeout: WriteTimeout bounds a TLS handshake that is not
// answered (4.6).
func TestClientHandshakeTimeout(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	url, timeout := "https://"+ln.Addr().String()+"/", 20*time.Millisecond
	dial := func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }
	compare(t, []string{"HostClient", "Client", "HostClient, Dial", "Client, Dial"}, nil,
		func(name string) string {
			c, h := &fasthttp.Client{WriteTimeout: timeout}, &fasthttp.HostClient{Addr: ln.Addr().String(), IsTLS: true, WriteTimeout: timeout}
			if strings.HasSuffix(name, "Dial") {
				c.Dial, h.Dial = dial, dial
			}
			get := h.Get
			if strings.HasPrefix(name, "Client") {
				get = c.Get
			}
			_, _, err := get(nil, url)
			return fmt.Sprint(err == fasthttp.ErrTLSHandshakeTimeout)
		},
		func(name string) string {
			c, h := &sluice.Client{WriteTimeout: timeout}, &sluice.HostClient{Addr: ln.Addr().String(), IsTLS: true, WriteTimeout: timeout}
			if strings.HasSuffix(name, "Dial") {
				c.Dial, h.Dial = dial, dial
			}
			get := h.Get
			if strings.HasPrefix(name, "Client") {
				get = c.Get
			}
			_, _, err := get(nil, url)
			return fmt.Sprint(err == sluice.ErrTLSHandshakeTimeout)
		})
}

// TestAcquiredConn: a connection that was acquired, with a deadline that has
// passed, is good for the next request (4.7).
func TestAcquiredConn(t *testing.T) {
	type conn interface {
		Conn() net.Conn
		CreatedTime() time.Time
		LastUseTime() time.Time
	}
	now := func(at time.Time) string {
		if at.IsZero() {
			return "zero"
		}
		return fmt.Sprint(time.Since(at).Abs() < time.Hour)
	}
	describe := func(a *answerer, acquire func() (conn, func(), error), get func(dst []byte, url string) (int, []byte, error)) string {
		var all []string
		for range 2 {
			c, release, err := acquire()
			if err != nil {
				return err.Error()
			}
			all = append(all, now(c.CreatedTime()), now(c.LastUseTime()))
			err = c.Conn().SetDeadline(time.Unix(1, 0))
			release()
			status, _, getErr := get(nil, a.url())
			all = append(all, fmt.Sprint(err, status, getErr, a.conns.Load()))
		}
		return fmt.Sprint(all)
	}
	answer := func(int) (string, bool) { return okAnswer, false }
	compare(t, []string{""}, nil,
		func(string) string {
			a := newAnswerer(t, answer)
			c := &fasthttp.HostClient{Addr: a.Addr().String()}
			return describe(a, func() (conn, func(), error) {
				cc, err := c.AcquireConn(0, false)
				return cc, func() { c.ReleaseConn(cc) }, err
			}, c.Get)
		},
		func(string) string {
			a := newAnswerer(t, answer)
			c := &sluice.HostClient{Addr: a.Addr().String()}
			return describe(a, func() (conn, func(), error) {
				cc, err := c.AcquireConn(0, false)
				return cc, func() { c.ReleaseConn(cc) }, err
			}, c.Get)
		})
}

// TestClientBreaksOff: bodies that break off, of Get and Post, and unwanted ones
// (4.2).
func TestClientBreaksOff(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	answers := map[string]string{
		"sized": ok + "Content-Length: 9\r\n\r\nx", "long": ok + "Content-Length: 8193\r\n\r\nx",
		"chunked": ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nx", "chunk": ok + "Transfer-Encoding: chunked\r\n\r\nx\r\nx",
	}
	var inputs []string
	for name := range answers {
		for _, call := range []string{"Get", "Post", "Do", "DoRedirects"} {
			inputs = append(inputs, name+" "+call, name+" "+call+" stream")
		}
	}
	describe := func(status int, body []byte, err error, a *answerer) string {
		return fmt.Sprintf("%d %q %v %d", status, body, err != nil, a.requests.Load())
	}
	split := func(input string) (*answerer, string, bool) {
		words := strings.Fields(input)
		return newAnswerer(t, func(int) (string, bool) { return answers[words[0]], true }), words[1], len(words) > 2
	}
	compare(t, inputs, differences{"sized DoRedirects stream": "L35"},
		func(input string) string {
			a, call, isStream := split(input)
			c := &fasthttp.HostClient{Addr: a.Addr().String(), StreamResponseBody: isStream}
			var req fasthttp.Request
			req.SetRequestURI(a.url())
			var status int
			var body []byte
			var err error
			switch call {
			case "Get":
				status, body, err = c.Get([]byte("dst"), a.url())
			case "Post":
				status, body, err = c.Post([]byte("dst"), a.url(), nil)
			case "Do":
				err = c.Do(&req, nil)
			default:
				err = c.DoRedirects(&req, nil, 1)
			}
			return describe(status, body, err, a)
		},
		func(input string) string {
			a, call, isStream := split(input)
			c := &sluice.HostClient{Addr: a.Addr().String(), StreamResponseBody: isStream}
			var req sluice.Request
			req.SetRequestURI(a.url())
			var status int
			var body []byte
			var err error
			switch call {
			case "Get":
				status, body, err = c.Get([]byte("dst"), a.url())
			case "Post":
				status, body, err = c.Post([]byte("dst"), a.url(), nil)
			case "Do":
				err = c.Do(&req, nil)
			default:
				err = c.DoRedirects(&req, nil, 1)
			}
			return describe(status, body, err, a)
		})
}
