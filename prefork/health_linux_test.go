package prefork

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// probes returns the answers to /healthz, /readyz and /startupz.
func probes(t *testing.T, admin string) (text string) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz", "/startupz"} {
		status, body := request(t, "tcp", admin, "GET", path, "")
		text += itoa(status) + " " + strings.TrimSpace(body) + ", "
	}
	return strings.TrimSuffix(text, ", ")
}

// Probes follow the fleet: it is not ready before a worker serves, while it is paused, and from
// SIGTERM on, although it goes on to serve for ShutdownDelay.
func TestProbesFollowTheFleet(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	admin := freeAddr(t)
	f := start(t, setup{Workers: 2, Admin: admin, FirstGate: gate, Delay: time.Hour, Grace: patience}, false)
	until(t, "the admin listens", func() bool { _, err := get("tcp", admin, "/healthz"); return err == nil })
	if got, want := probes(t, admin), "200 ok, 503 no worker serves, 503 no worker serves"; got != want {
		t.Errorf("at first: %s", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "it is ready", func() bool { return probes(t, admin) == "200 ok, 200 ok, 200 ok" })
	until(t, "all serve", func() bool { return statusAt(t, "tcp", admin).Ready })
	f.signal(syscall.SIGWINCH)
	paused := "200 ok, 503 paused: SIGHUP starts the workers again, 200 ok"
	until(t, "it pauses", func() bool { return probes(t, admin) == paused })
	f.signal(syscall.SIGHUP)
	until(t, "it goes on", func() bool { return probes(t, admin) == "200 ok, 200 ok, 200 ok" })
	until(t, "all serve", func() bool { return statusAt(t, "tcp", admin).Ready })
	c := f.dial()
	f.signal(syscall.SIGTERM)
	until(t, "it is not ready", func() bool { return probes(t, admin) == "200 ok, 503 stopping, 200 ok" })
	for range 4 { // new connections, too
		f.dial().get("/")
	}
	c.get("/")
	f.signal(syscall.SIGTERM) // ends the delay
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// Before ListenAndServe, and on other paths.
func TestHealthHandler(t *testing.T) {
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/startupz": 503, "/status": 404} {
		var ctx sluice.RequestCtx
		ctx.Request.SetRequestURI(path)
		HealthHandler(&Prefork{})(&ctx)
		if got := ctx.Response.StatusCode(); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
