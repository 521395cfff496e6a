package server_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

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
