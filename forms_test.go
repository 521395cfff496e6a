package sluice

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// The forms of a method do the same.
func TestFormsOfHeaderMethods(t *testing.T) {
	var req RequestHeader
	req.SetProtocolBytes([]byte("HTTP/1.0"))
	req.SetMethod("GET")
	req.SetRequestURI("/x")
	req.SetHost("h")
	req.Set("X-A", "1")
	if got := string(req.Protocol()); got != "HTTP/1.0" {
		t.Errorf("protocol %q", got)
	}
	var resp ResponseHeader
	resp.SetNoDefaultContentType(true)
	resp.Set("X-A", "1")
	resp.Set("Set-Cookie", "a=b; path=/")
	resp.Set("X-B", "2")
	keys := string(bytes.Join(resp.PeekKeys(), []byte(" ")))
	if again := string(bytes.Join(resp.PeekKeys(), []byte(" "))); keys != again || strings.Count(keys, "X-A") != 1 || strings.Count(keys, "X-B") != 1 {
		t.Errorf("keys %q, then %q", keys, again)
	}
	var all, visited []string
	for key, value := range resp.All() {
		all = append(all, string(key)+": "+string(value))
	}
	resp.VisitAll(func(key, value []byte) { visited = append(visited, string(key)+": "+string(value)) })
	if len(all) < 3 || strings.Join(all, "\n") != strings.Join(visited, "\n") {
		t.Errorf("VisitAll visits %q, All %q", visited, all)
	}
	cookies := ""
	resp.VisitAllCookie(func(key, value []byte) { cookies += string(key) + ": " + string(value) })
	if cookies != "a: a=b; path=/" {
		t.Errorf("cookies %q", cookies)
	}
	for _, h := range []interface {
		String() string
		Write(*bufio.Writer) error
	}{&req, &resp} {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		if err := errors.Join(h.Write(w), w.Flush()); err != nil || out.String() != h.String() || out.Len() < 20 {
			t.Errorf("Write writes %q, %v; String is %q", out.String(), err, h.String())
		}
	}
	before := req.String() + resp.String()
	req.CopyTo(&req)
	resp.CopyTo(&resp)
	if got := req.String() + resp.String(); got != before {
		t.Errorf("copied to themselves: %q, want %q", got, before)
	}
	req.DelCookieBytes([]byte("none"))
	if got := req.String() + resp.String(); got != before {
		t.Errorf("without a cookie that is not there: %q, want %q", got, before)
	}
}

// What was set canonically is found in the trailer section, too, with exactly
// the name that it has there.
func TestPeekCanonicalInTrailers(t *testing.T) {
	var h RequestHeader
	if err := h.AddTrailer("X-Sum"); err != nil {
		t.Fatal(err)
	}
	h.Set("X-Sum", "1")
	h.Set("Cookie", "a=b")
	for key, want := range map[string]string{"X-Sum": "1", "x-sum": "", "X-Other": "", "Cookie": "a=b", "cookie": ""} {
		if got := string(h.PeekCanonical([]byte(key))); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestParseUintThatIsTooLarge(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "7": 7, "9223372036854775808": -1, "18446744073709551616": -1, "": -1, "-1": -1} {
		if got, err := ParseUint([]byte(text)); got != want || (err != nil) != (want < 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// The functions of the package are those of one Client.
func TestPackageLevelClient(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			if string(r.Header.RequestURI()) == "/moved" {
				c.send("HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	t.Cleanup(defaultClient.CloseIdleConnections)
	ctx, soon := t.Context(), time.Now().Add(clientPatience)
	req, resp := newCall("GET", p.url("/ok"))
	var form Args
	form.Set("k", "v")
	get := func(status int, body []byte, err error) error {
		if err == nil && (status != 200 || string(body) != "ok") {
			return errors.New("another answer: " + string(body))
		}
		return err
	}
	do := func(err error) error { return get(resp.StatusCode(), resp.Body(), err) } // resp is read after the call
	for name, call := range map[string]func() error{
		"Do":          func() error { return do(Do(req, resp)) },
		"DoTimeout":   func() error { return do(DoTimeout(req, resp, clientPatience)) },
		"DoDeadline":  func() error { return do(DoDeadline(req, resp, soon)) },
		"DoContext":   func() error { return do(DoContext(ctx, req, resp)) },
		"Get":         func() error { return get(Get(nil, p.url("/moved"))) },
		"GetTimeout":  func() error { return get(GetTimeout(nil, p.url("/moved"), clientPatience)) },
		"GetDeadline": func() error { return get(GetDeadline(nil, p.url("/moved"), soon)) },
		"GetContext":  func() error { return get(GetContext(ctx, nil, p.url("/moved"))) },
		"Post":        func() error { return get(Post(nil, p.url("/ok"), &form)) },
		"PostContext": func() error { return get(PostContext(ctx, nil, p.url("/ok"), &form)) },
		"DoRedirects": func() error {
			moved, answer := newCall("GET", p.url("/moved"))
			err := DoRedirects(moved, answer, 1)
			return get(answer.StatusCode(), answer.Body(), err)
		},
	} {
		resp.Reset()
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, err := range map[string]error{
		"DoContext": DoContext(ended, req, resp), "DoTimeout": DoTimeout(req, resp, -1), "DoDeadline": DoDeadline(req, resp, time.Unix(1, 0)),
	} {
		if err == nil {
			t.Errorf("%s ends without an error", name)
		}
	}
}

// A fullWriter takes room bytes.
type fullWriter struct{ room int }

func (w *fullWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n := w.room
		w.room = 0
		return n, io.ErrShortWrite
	}
	w.room -= len(p)
	return len(p), nil
}

// A message that cannot be written whole is an error wherever that shows, and
// its stream is closed.
func TestMessagesThatCannotBeWritten(t *testing.T) {
	type message interface {
		Write(*bufio.Writer) error
		SetBodyString(string)
		SetBodyStream(io.Reader, int)
	}
	for name, make := range map[string]func() message{
		"request": func() message {
			r := new(Request)
			r.SetRequestURI("http://h/")
			r.Header.SetMethod("POST")
			return r
		},
		"response": func() message { return new(Response) },
		"response that shows its head": func() message {
			r := new(Response)
			r.ImmediateHeaderFlush = true
			return r
		},
	} {
		for kind, size := range map[string]int{"buffered": 0, "stream": 30, "chunked": -1} {
			closed := true
			build := func() message {
				m := make()
				if kind == "buffered" {
					m.SetBodyString(strings.Repeat("x", 30))
				} else {
					closed = false
					m.SetBodyStream(closeFunc{strings.NewReader(strings.Repeat("x", 30)), func() { closed = true }}, size)
				}
				return m
			}
			var whole bytes.Buffer
			w := bufio.NewWriter(&whole)
			if err := errors.Join(build().Write(w), w.Flush()); err != nil || !closed {
				t.Fatalf("%s, %s: %v, closed %v", name, kind, err, closed)
			}
			for room := range whole.Len() {
				w := bufio.NewWriterSize(&fullWriter{room}, 16)
				if err := errors.Join(build().Write(w), w.Flush()); !errors.Is(err, io.ErrShortWrite) || !closed {
					t.Errorf("%s, %s, room for %d bytes: %v, closed %v", name, kind, room, err, closed)
				}
			}
		}
	}
}

// closeFunc is a body stream that tells of its Close.
type closeFunc struct {
	io.Reader
	onClose func()
}

func (c closeFunc) Close() error {
	c.onClose()
	return nil
}
