package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// busyServer answers busy times with a status and a Retry-After, then with the request's body.
type busyServer struct {
	*httptest.Server
	asked atomic.Int32
}

func newBusyServer(t *testing.T, busy, status int, after string) *busyServer {
	t.Helper()
	s := &busyServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if int(s.asked.Add(1)) <= busy {
			if after != "" {
				w.Header()["retry-after"] = []string{after} // as over HTTP/2
			}
			http.Error(w, "busy", status)
			return
		}
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, "<"+string(body)+">")
	}))
	t.Cleanup(s.Close)
	return s
}

// What may be repeated is repeated, with its body, and nothing else; who is not helped by that
// gets the response.
// long: a table
func TestRetryStatus(t *testing.T) {
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	future := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	long := &sluice.RetryStatus{MinPause: time.Hour, MaxPause: 2 * time.Hour}
	for _, c := range []struct {
		name   string
		status int
		after  string
		change func(c *sluice.Client, r *sluice.Request)
		asked  int32 // 2: repeated
	}{
		{"503", 503, "", nil, 2},
		{"429", 429, "0", nil, 2},
		{"date in the past", 503, past, nil, 2},
		{"no date", 503, "soon", nil, 2},
		{"negative", 503, "-1", nil, 2},
		{"500", 500, "0", nil, 1},
		{"an hour", 503, "3600", nil, 1},
		{"a date in an hour", 503, future, nil, 1},
		{"an hour, names as sent", 503, "3600", func(c *sluice.Client, _ *sluice.Request) { c.DisableHeaderNamesNormalizing = true }, 1},
		{"ages", 503, "99999999999999999999", nil, 1},
		{"POST", 503, "", func(_ *sluice.Client, r *sluice.Request) { r.Header.SetMethod("POST") }, 1},
		{"POST with a key", 503, "", func(_ *sluice.Client, r *sluice.Request) {
			r.Header.SetMethod("POST")
			r.Header.Set("Idempotency-Key", "k")
		}, 2},
		{"PUT", 503, "", func(_ *sluice.Client, r *sluice.Request) { r.Header.SetMethod("PUT") }, 2},
		{"PUT of a stream", 503, "", func(_ *sluice.Client, r *sluice.Request) {
			r.Header.SetMethod("PUT")
			r.SetBodyStream(strings.NewReader("body"), 4)
		}, 1},
		{"RetryIf says no", 503, "", func(c *sluice.Client, _ *sluice.Request) {
			c.RetryIf = func(*sluice.Request) bool { return false }
		}, 1},
		{"RetryIf says yes", 503, "", func(c *sluice.Client, r *sluice.Request) {
			r.Header.SetMethod("POST")
			c.RetryIf = func(*sluice.Request) bool { return true }
		}, 2},
		{"one attempt", 503, "", func(c *sluice.Client, _ *sluice.Request) { c.MaxIdemponentCallAttempts = 1 }, 1},
		{"off", 503, "", func(c *sluice.Client, _ *sluice.Request) { c.RetryStatus = nil }, 1},
		{"streamed", 503, "", func(c *sluice.Client, _ *sluice.Request) { c.StreamResponseBody = true }, 2},
		{"beyond the time of the call", 503, "", func(c *sluice.Client, r *sluice.Request) {
			c.RetryStatus = long
			r.SetTimeout(time.Minute)
		}, 1},
		{"the longest pause is short", 503, "", func(c *sluice.Client, _ *sluice.Request) {
			c.RetryStatus = &sluice.RetryStatus{MinPause: time.Hour, MaxPause: time.Millisecond}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newBusyServer(t, 1, c.status, c.after)
			client := &sluice.Client{RetryStatus: &sluice.RetryStatus{MinPause: time.Millisecond}}
			defer client.CloseIdleConnections()
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI(server.URL)
			req.SetBodyString("body")
			if c.change != nil {
				c.change(client, &req)
			}
			if err := client.Do(&req, &resp); err != nil {
				t.Fatal(err)
			}
			want := "busy\n"
			if c.asked == 2 {
				want = "<body>"
			}
			if got := string(resp.Body()); got != want || server.asked.Load() != c.asked {
				t.Errorf("%d %q after %d requests, want %q after %d", resp.StatusCode(), got, server.asked.Load(), want, c.asked)
			}
		})
	}
}

// A server that stays busy is asked five times by one caller, and by many callers hardly more often than
// without repetitions.
func TestRetryStatusBudget(t *testing.T) {
	server := newBusyServer(t, 1<<30, 503, "")
	client := &sluice.Client{RetryStatus: &sluice.RetryStatus{MinPause: time.Nanosecond}}
	defer client.CloseIdleConnections()
	var repeated atomic.Int32
	client.Trace = &sluice.ClientTrace{Retry: func(_ int, err error) {
		repeated.Add(1)
		if !strings.Contains(err.Error(), "503") {
			t.Errorf("repeated after %v", err)
		}
	}}
	for i := range int32(100) {
		status, _, err := client.Get(nil, server.URL)
		if status != 503 || err != nil {
			t.Fatal(status, err)
		}
		if i == 0 && server.asked.Load() != 5 {
			t.Errorf("one caller: %d requests", server.asked.Load())
		}
	}
	// Ten, and ten for each hundred requests.
	if got := server.asked.Load(); got > 120 || got < 118 || repeated.Load() != got-100 {
		t.Errorf("100 calls: %d requests, %d repeated", got, repeated.Load())
	}
}

// endingRoundTripper ends a context when the response has come.
type endingRoundTripper struct{ end func() }

func (e endingRoundTripper) RoundTrip(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (bool, error) {
	retry, err := sluice.DefaultTransport.RoundTrip(c, req, resp)
	e.end()
	return retry, err
}

// The context ends a pause, and one that ends before the pause does brings the response at once.
func TestRetryStatusContext(t *testing.T) {
	server := newBusyServer(t, 1, 503, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := &sluice.Client{RetryStatus: &sluice.RetryStatus{MinPause: time.Hour, MaxPause: time.Hour}, Transport: endingRoundTripper{cancel}}
	defer client.CloseIdleConnections()
	var req sluice.Request
	req.SetRequestURI(server.URL)
	err := client.DoContext(ctx, &req, nil)
	var ended *sluice.PhaseError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &ended) || ended.Phase != sluice.PhaseWait || server.asked.Load() != 1 {
		t.Errorf("%v after %d requests", err, server.asked.Load())
	}

	server = newBusyServer(t, 1, 503, "")
	req.SetRequestURI(server.URL)
	limited, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var resp sluice.Response
	hosts := &sluice.Client{RetryStatus: client.RetryStatus}
	defer hosts.CloseIdleConnections()
	if err := hosts.DoContext(limited, &req, &resp); err != nil || resp.StatusCode() != 503 {
		t.Errorf("%d, %v", resp.StatusCode(), err)
	}
}
