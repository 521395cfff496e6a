package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/sluicetest"
)

func TestLimits(t *testing.T) {
	sluicetest.CheckLeaks(t)
	s := sluicetest.NewUnstartedServer(t, nil)
	s.Config = newServer(20 * time.Millisecond)
	s.Start()

	const end = "HTTP/1.1\r\nHost: here\r\n"
	tests := []struct {
		name, request string
		status        int
		body          string
	}{
		{"in bounds", "POST / " + end + "Content-Length: 3\r\n\r\nabc", 200, "3 bytes\n"},
		{"body", "POST / " + end + "Content-Length: 65537\r\n\r\n", 413, "bodies are at most 64 KiB here"},
		{"request line", "GET /" + strings.Repeat("x", 9000) + " " + end + "\r\n", 414, "less header, please"},
		{"head", "GET / " + end + "Big: " + strings.Repeat("x", 70_000) + "\r\n\r\n", 431, "less header, please"},
		{"slow client", "GET / " + end, 408, "too slow"},
		{"slow handler", "GET /slow " + end + "\r\n", 503, "took too long"},
		{"nonsense", "GET / " + end + "No Colon: 1\r\n\r\n", 400, "not HTTP: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprint(conn, test.request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != test.status || !strings.HasPrefix(string(body), test.body) {
				t.Errorf("status %d, body %q, %v; want %d, %q", resp.StatusCode, body, err, test.status, test.body)
			}
		})
	}
}
