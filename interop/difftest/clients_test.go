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

// newAnswerer starts a server, which ends with the test.
func newAnswerer(t *testing.T, answer func(number int) (raw string, closes bool)) *answerer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &answerer{Listener: ln, answer: answer}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			a.conns.Add(1)
			go a.serve(c)
		}
	}()
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

// timeoutOf bounds waiting for an answer that does not come.
func timeoutOf(raw string) time.Duration {
	if raw == silence {
		return 20 * time.Millisecond
	}
	return 0
}
