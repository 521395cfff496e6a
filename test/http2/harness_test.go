package http2_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/test/harness"
)

// readAll reads and closes a body.
func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	return string(body)
}

// closed returns when c is closed, which must be soon.
func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(harness.Patience):
		t.Errorf("%s: not in time", what)
	}
}
