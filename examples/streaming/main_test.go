package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/sluicetest"
)

// start serves on a free port and returns its URL.
func start(t *testing.T, ticks <-chan time.Time) string {
	t.Helper()
	s := sluicetest.NewUnstartedServer(t, nil)
	s.Config = newServer(ticks)
	s.Start()
	return s.URL
}

func get(t *testing.T, url string) (*http.Response, *bufio.Reader) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, bufio.NewReader(resp.Body)
}

func wantLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("line %q, %v, want %q", got, err, want)
	}
}

// TestEvents: an event arrives before the next one is made. The writer ends with the
// client; otherwise Shutdown would not return.
func TestEvents(t *testing.T) {
	ticks := make(chan time.Time)
	// The head is sent with the first event, so the request waits for a tick.
	go func() { ticks <- time.Time{} }()
	resp, body := get(t, start(t, ticks)+"/events")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	for n := 1; n <= 3; n++ {
		if n > 1 {
			ticks <- time.Time{}
		}
		wantLine(t, body, fmt.Sprintf("id: %d", n))
		wantLine(t, body, "data: tick")
		wantLine(t, body, "")
	}
	resp.Body.Close()
}

func TestProgress(t *testing.T) {
	ticks := make(chan time.Time)
	_, body := get(t, start(t, ticks)+"/progress")
	wantLine(t, body, "0%")
	ticks <- time.Time{}
	wantLine(t, body, "50%")
	ticks <- time.Time{}
	wantLine(t, body, "100%")
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
}

// zeros is a body of 64 MiB that is never in memory as a whole.
func zeros() io.Reader { return io.LimitReader(zeroReader{}, 64<<20) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestUploadInConstantMemory(t *testing.T) {
	url := start(t, nil) + "/upload"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := http.Post(url, "application/octet-stream", zeros())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	runtime.ReadMemStats(&after)
	if err != nil || string(body) != "received 67108864 bytes\n" {
		t.Errorf("answer %q, %v", body, err)
	}
	// All allocations, including the client's and freed ones.
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("allocated %d KiB for an upload of 64 MiB", n>>10)
	}
}
