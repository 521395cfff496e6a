package middleware

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
)

func probe(t *testing.T, h sluice.RequestHandler, path string) (status int, body string) {
	ctx := request(t, "GET "+path+" HTTP/1.1")
	h(ctx)
	return ctx.Response.StatusCode(), string(ctx.Response.Body())
}

// Probes get the state of the last second; a thousand of them ask a database once.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var problem error
		calls := 0
		h := Health(func() error { calls++; return problem })(answer("other"))
		expect := func(path string, want int) {
			t.Helper()
			if status, body := probe(t, h, path); status != want || strings.Contains(body, "secret") {
				t.Errorf("%s: %d %q, want %d", path, status, body, want)
			}
		}
		problem = errors.New("dial 10.0.0.3: secret")
		expect("/healthz", 200)
		expect("/startupz", 503)
		expect("/readyz", 503)
		problem = nil
		expect("/readyz", 503)
		time.Sleep(healthAge)
		for range 1000 {
			expect("/readyz", 200)
		}
		expect("/startupz", 200)
		problem = errors.New("secret")
		time.Sleep(healthAge)
		expect("/readyz", 503)
		expect("/startupz", 200)
		if calls != 3 {
			t.Errorf("ready is called %d times", calls)
		}
		if status, body := probe(t, h, "/readyz/x"); status != 200 || body != "other" {
			t.Errorf("%d %q", status, body)
		}
	})
}

// A check that hangs keeps one probe, not all of them.
func TestHealthHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		h := Health(func() error { <-release; return nil })(answer("other"))
		var first sync.WaitGroup
		first.Go(func() {
			if status, _ := probe(t, h, "/readyz"); status != 200 {
				t.Error(status)
			}
		})
		synctest.Wait()
		for range 100 {
			if status, _ := probe(t, h, "/readyz"); status != 503 {
				t.Error(status)
			}
		}
		close(release)
		first.Wait()

		// One that hangs for long is not ready, though it was.
		release = make(chan bool)
		time.Sleep(healthAge)
		first.Go(func() { probe(t, h, "/readyz") })
		synctest.Wait()
		if status, _ := probe(t, h, "/readyz"); status != 200 {
			t.Error(status)
		}
		time.Sleep(healthPatience)
		for path, want := range map[string]int{"/readyz": 503, "/startupz": 200, "/healthz": 200} {
			if status, _ := probe(t, h, path); status != want {
				t.Errorf("%s: %d", path, status)
			}
		}
		close(release)
		first.Wait()
		if status, _ := probe(t, h, "/readyz"); status != 200 {
			t.Error(status)
		}
	})
}
