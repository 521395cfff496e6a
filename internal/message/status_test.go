package message

import (
	"fmt"
	"net/http"
	"testing"
)

func TestStatusLines(t *testing.T) {
	for code := 100; code <= 999; code++ {
		want := fmt.Sprintf("HTTP/1.1 %d %s\r\n", code, Reason(code))
		if got := statusLine(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
		if got := string(appendStatusLine([]byte("x"), code, Reason(code))); got != "x"+want {
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

func TestStatusLineDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = statusLine(404) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestReason: the phrases are those of package http; 425 has no constant here, and none.
func TestReason(t *testing.T) {
	for code := range 1000 {
		want := http.StatusText(code)
		if want == "" || code == 425 {
			want = "Unknown Status Code"
		}
		if got := Reason(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}
