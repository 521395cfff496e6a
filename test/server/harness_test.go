package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func closing(path string) string {
	return harness.Request("GET "+path+" HTTP/1.1", "Connection: close")
}

// post is a POST request with a Content-Length.
func post(path, body string, lines ...string) string {
	lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	return harness.Request("POST "+path+" HTTP/1.1", lines...) + body
}

// textAnswer is an answer of the default kind, without its Date.
func textAnswer(status int, body string, lines ...string) string {
	s := fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n",
		status, sluice.StatusMessage(status), len(body))
	if body == "" {
		s = fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Length: 0\r\n", status, sluice.StatusMessage(status))
	}
	for _, l := range lines {
		s += l + "\r\n"
	}
	return s + "\r\n" + body
}

// statusesOf returns the status codes of the answers in raw, which must have
// nothing else than final answers in it.
func statusesOf(t *testing.T, raw string, methods ...string) (statuses []int, bodies []string) {
	t.Helper()
	br := bufio.NewReader(strings.NewReader(raw))
	for i := 0; ; i++ {
		if _, err := br.Peek(1); err == io.EOF {
			return statuses, bodies
		}
		method := "GET"
		if i < len(methods) {
			method = methods[i]
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("answer %d of %q: %v", i, raw, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("body of answer %d of %q: %v", i, raw, err)
		}
		statuses, bodies = append(statuses, resp.StatusCode), append(bodies, string(body))
	}
}
