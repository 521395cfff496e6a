package sluice

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestStatusMessages(t *testing.T) {
	// What net/http calls differently: 413, 414 and 416 had these names in RFC
	// 2616, and fasthttp's users know them.
	different := map[int]string{413: "Request Entity Too Large", 414: "Request URI Too Long", 416: "Requested Range Not Satisfiable", 418: "I'm a teapot", 425: unknownStatus}
	for code := range 1100 {
		want := http.StatusText(code)
		if name, isDifferent := different[code]; isDifferent {
			want = name
		}
		if want == "" {
			want = unknownStatus
		}
		if got := StatusMessage(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	if StatusMessage(-1) != unknownStatus {
		t.Error("-1")
	}
}

func TestStatusLines(t *testing.T) {
	for code := 100; code <= 999; code++ {
		want := fmt.Sprintf("HTTP/1.1 %d %s\r\n", code, StatusMessage(code))
		if got := statusLine(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
		if got := string(appendStatusLine([]byte("x"), code, StatusMessage(code))); got != "x"+want {
			t.Errorf("appended %d: %q", code, got)
		}
	}
	for _, code := range []int{-1, 0, 42, 99, 1000, 6000} {
		const want = "HTTP/1.1 500 Internal Server Error\r\n"
		if statusLine(code) != want || string(appendStatusLine(nil, code, "x")) != want {
			t.Errorf("%d: %q", code, statusLine(code))
		}
	}
	if got := string(appendStatusLine(nil, 200, "O\r\nK: \x00")); got != "HTTP/1.1 200 O  K:  \r\n" {
		t.Errorf("%q", got)
	}
}

func TestStatusCodeIsRedirect(t *testing.T) {
	var redirects []string
	for code := range 1000 {
		if StatusCodeIsRedirect(code) {
			redirects = append(redirects, fmt.Sprint(code))
		}
	}
	if got := strings.Join(redirects, " "); got != "301 302 303 307 308" {
		t.Error(got)
	}
}

func TestStatusLineDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = statusLine(404) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
