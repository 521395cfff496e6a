//lint:file-ignore SA1019 what is deprecated works, too

package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// The forms of a method do the same.
func TestFormsOfHeaderMethods(t *testing.T) {
	var req sluice.RequestHeader
	req.SetProtocolBytes([]byte("HTTP/1.0"))
	req.SetMethod("GET")
	req.SetRequestURI("/x")
	req.SetHost("h")
	req.Set("X-A", "1")
	if got := string(req.Protocol()); got != "HTTP/1.0" {
		t.Errorf("protocol %q", got)
	}
	var resp sluice.ResponseHeader
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
	var h sluice.RequestHeader
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
		if got, err := sluice.ParseUint([]byte(text)); got != want || (err != nil) != (want < 0) {
			t.Errorf("%q: %d, %v", text, got, err)
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
			r := new(sluice.Request)
			r.SetRequestURI("http://h/")
			r.Header.SetMethod("POST")
			return r
		},
		"response": func() message { return new(sluice.Response) },
		"response that shows its head": func() message {
			r := new(sluice.Response)
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
