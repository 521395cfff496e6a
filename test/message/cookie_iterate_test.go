package message_test

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestRequestCookiesChangedWhileVisited: middleware that decodes cookies sets
// each of them while it goes through all, and deletes the bad ones by the names
// that it has kept.
func TestRequestCookiesChangedWhileVisited(t *testing.T) {
	for _, isReceived := range []bool{true, false} {
		for _, old := range []int{1, 40, 300} {
			for _, length := range []int{0, 1, 45, 2000} {
				var h sluice.RequestHeader
				if isReceived {
					readCookies(t, &h, old)
				} else {
					for _, name := range []string{"first", "bad", "last"} {
						h.SetCookie(name, strings.Repeat("x", old))
					}
				}
				var visited, bad [][]byte
				for name, value := range h.Cookies() {
					visited = append(visited, append([]byte(nil), name...))
					if string(name) == "bad" {
						bad = append(bad, name)
						continue
					}
					if len(value) != old {
						t.Errorf("%s has %d bytes, want %d", name, len(value), old)
					}
					h.SetCookieBytesKV(name, []byte(strings.Repeat("y", length)))
				}
				for _, name := range bad {
					h.DelCookieBytes(name)
				}
				y := strings.Repeat("y", length)
				if got, want := string(h.Peek(sluice.HeaderCookie)), "first="+y+"; last="+y; got != want || len(visited) != 3 {
					t.Errorf("received %v, %d bytes to %d: visited %q, are %.80q, want %.80q", isReceived, old, length, visited, got, want)
				}
			}
		}
	}
}

// readCookies makes h a header with three cookies that was read.
func readCookies(t *testing.T, h *sluice.RequestHeader, length int) {
	t.Helper()
	value := strings.Repeat("x", length)
	head := "GET / HTTP/1.1\r\nHost: h\r\nCookie: first=" + value + "; bad=" + value + "; last=" + value + "\r\n\r\n"
	if err := h.Read(readerOf(head)); err != nil {
		t.Fatal(err)
	}
}
