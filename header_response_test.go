package sluice

import (
	"testing"
)

func TestResponseReusedForReading(t *testing.T) {
	h := readResponse(t, "HTTP/1.0 404 Nope\r\nX: y\r\nTrailer: T\r\nContent-Length: 3\r\n\r\n")
	h.SetStatusMessage([]byte("own"))
	if err := h.Read(reader("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := undated(h), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
