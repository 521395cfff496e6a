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
	different := map[int]string{413: "Request Entity Too Large", 414: "Request URI Too Long", 416: "Requested Range Not Satisfiable", 418: "I'm a teapot", 425: "Unknown Status Code"}
	for code := range 1100 {
		want := http.StatusText(code)
		if name, isDifferent := different[code]; isDifferent {
			want = name
		}
		if want == "" {
			want = "Unknown Status Code"
		}
		if got := StatusMessage(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	if StatusMessage(-1) != "Unknown Status Code" {
		t.Error("-1")
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
