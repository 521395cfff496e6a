package main

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// TestPush: ws and bench have something to talk to, also over HTTPS and with workers.
func TestPush(t *testing.T) {
	for name, args := range map[string][]string{"one process": nil, "TLS": {"--tls-self-signed"}, "workers": {"--prefork=2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, args...)
			ws := strings.Replace(p.url, "http", "ws", 1) + "/ws"
			if got := finish(t, wsCommand(t, "hello\n", "-k", "--wait", "1", ws)); got.status != 0 || got.stdout != "hello\n" {
				t.Errorf("ws: %+v", got)
			}
			if stdout, stderr, status := runs(t, "-k", "-n", "20", "-c", "2", ws); status != 0 || !strings.Contains(stdout, "20 ") {
				t.Errorf("bench of ws: %d\n%s%s", status, stdout, stderr)
			}
			if _, stderr, status := runs(t, "-k", "--sse", "-n", "2", "-c", "2", p.url+"/events"); status != 0 {
				t.Errorf("bench of events: %d\n%s", status, stderr)
			}
			checkEvents(t, p.url+"/events")
		})
	}
}

// checkEvents reads a tick, and what is posted.
func checkEvents(t *testing.T, url string) {
	t.Helper()
	resp, err := client().Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(resp.Body)
	for !(seen["event: tick"] && seen["data: hi all"]) && lines.Scan() {
		if line := lines.Text(); line == "event: tick" && !seen[line] { // the stream has begun
			posted, err := client().Post(url, "text/plain", strings.NewReader("hi all"))
			if err != nil || posted.StatusCode != http.StatusNoContent {
				t.Fatal(posted, err)
			}
			posted.Body.Close()
		}
		seen[lines.Text()] = true
	}
	if !seen["event: tick"] || !seen["event: post"] || !seen["data: hi all"] {
		t.Errorf("events: %v, %v", seen, lines.Err())
	}
}
