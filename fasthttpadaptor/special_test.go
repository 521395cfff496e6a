package fasthttpadaptor_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// specialFields are fields that net/http's server treats in a way of its own, with values
// that it takes, refuses or ignores.
func specialFields() map[string][]string {
	return map[string][]string{
		"Content-Length":             {"", "0", "4", "9", " 4", "4 ", "\t4", "-4", "4,4", "0x4", "four", "4.0", "99999999999999999999"},
		"Transfer-Encoding":          {"", "chunked", " chunked", "Chunked", "identity", " identity", "Identity", "gzip", "gzip, chunked"},
		"Content-Type":               {"", "a/b", " a/b ", `a/b;c="d"`},
		"Content-Encoding":           {"", "x", " x", "identity"},
		"Connection":                 {"", "close", "keep-alive", "x", " x", "Upgrade"},
		"Date":                       {"", "x", "Tue, 15 Nov 1994 08:12:31 GMT"},
		"Trailer":                    {"", ",", "X-Sum", " X-Sum , X-Other", "x-sum", "Content-Length", "X-Sum, Content-Length", "a b"},
		"Server":                     {"", "x", " x "},
		"Set-Cookie":                 {"", "a=b", "a", "=", "a=b; Path=/;  HttpOnly"},
		"X-Any":                      {"", " x ", "a\r\nb: c", "\xc3\xa9", "\n x"},
		http.TrailerPrefix + "X-Sum": {"", "1", " 1 ", "a\nb"},
	}
}

// specialWays are what handlers do besides setting a field, before or after it.
func specialWays() map[string]func(w http.ResponseWriter, set func()) {
	write := func(w http.ResponseWriter, s string) { _, _ = io.WriteString(w, s) }
	return map[string]func(w http.ResponseWriter, set func()){
		"nothing":           func(_ http.ResponseWriter, set func()) { set() },
		"body":              func(w http.ResponseWriter, set func()) { set(); write(w, "body") },
		"WriteHeader":       func(w http.ResponseWriter, set func()) { set(); w.WriteHeader(404); write(w, "body") },
		"Flush":             func(w http.ResponseWriter, set func()) { set(); flush(w); write(w, "body") },
		"body, Flush":       func(w http.ResponseWriter, set func()) { set(); write(w, "bo"); flush(w); write(w, "dy") },
		"204":               func(w http.ResponseWriter, set func()) { set(); w.WriteHeader(204) },
		"304":               func(w http.ResponseWriter, set func()) { set(); w.WriteHeader(304) },
		"late":              func(w http.ResponseWriter, set func()) { write(w, "body"); set() },
		"late, Flush":       func(w http.ResponseWriter, set func()) { write(w, "body"); set(); flush(w) },
		"later, Flush":      func(w http.ResponseWriter, set func()) { write(w, "body"); flush(w); set() },
		"WriteHeader, late": func(w http.ResponseWriter, set func()) { w.WriteHeader(200); set(); write(w, "body") },
	}
}

// wireOf sends a request and returns the response in a form that does not depend on how the
// body is framed: the status, the fields in order, the body and the trailer section. Fields
// without a value, malformed ones of the framing, and what docs/guide/nethttp.md says of
// HEAD and Trailer are left out.
func wireOf(t *testing.T, addr, request string) string {
	text, _, _ := strings.Cut(exchange(t, addr, request), "HTTP/1.1 299")
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	lines := strings.Split(strings.Replace(head, "HTTP/1.0", "HTTP/1.1", 1), "\r\n")
	if slices.Contains(lines, "Transfer-Encoding: chunked") {
		in := bufio.NewReader(strings.NewReader(body))
		content, _ := io.ReadAll(httputil.NewChunkedReader(in))
		section, _ := io.ReadAll(in)
		body = string(content) + strings.TrimSuffix(string(section), "\r\n")
	}
	isKept := strings.Contains(request, "1.1\r\nHost: a\r\n\r\nGET /end")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Content-Length":
			n, err := strconv.Atoi(value)
			return err != nil || n < 0 || n == len(body) || strings.HasPrefix(request, "HEAD") && n != 9
		case "Transfer-Encoding", "Trailer":
			return true
		case "Connection":
			return value == "close" || value == "" || !isKept
		case "Date":
			sent, err := http.ParseTime(value)
			return value == "" || err == nil && time.Since(sent).Abs() < time.Hour
		}
		return value == "" && name != line && name != "X-Any"
	})
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n") + "\n\n" + body
}

// TestSpecialFieldsAreThoseOfNetHTTP: fields that net/http's server looks at itself have the
// same effect here, before the head is complete and after it.
func TestSpecialFieldsAreThoseOfNetHTTP(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	requests := map[string]string{
		"GET": get, "HEAD": strings.Replace(get, "GET", "HEAD", 1), "HTTP/1.0": strings.Replace(get, "1.1", "1.0", 1),
		"close": strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1),
	}
	if testing.Short() {
		requests = map[string]string{"GET": get}
	}
	for key, values := range specialFields() {
		all := [][]string{nil, {}}
		for _, value := range values {
			all = append(all, []string{value})
		}
		if key == "X-Any" || key == "Set-Cookie" || key == "Transfer-Encoding" {
			all = append(all, values[:2], []string{values[1], values[0]})
		}
		for way, run := range specialWays() {
			if strings.HasPrefix(key, http.TrailerPrefix) && strings.HasSuffix(way, "late") {
				continue // net/http loses it; see docs/guide/nethttp.md
			}
			for _, v := range all {
				c := sameCase{h: func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/end" {
						w.WriteHeader(299)
						return
					}
					run(w, func() { w.Header()[key] = v })
				}}
				reference, ours := c.serveBoth(t, &sluice.Server{NoDefaultServerHeader: true})
				for name, request := range requests {
					if key == "Content-Length" && name == "HTTP/1.0" && len(v) > 0 && v[0] != strings.TrimSpace(v[0]) {
						continue // net/http sends the length that it does not use
					}
					if want, got := wireOf(t, reference, request), wireOf(t, ours, request); got != want {
						t.Errorf("%s, %s: %q, %s:\n got %.800q\nwant %.800q", key, way, v, name, got, want)
					}
				}
			}
		}
	}
}
