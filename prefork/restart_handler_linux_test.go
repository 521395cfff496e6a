package prefork

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// The result of a restart is visible to the caller, in the status and in its JSON.
func TestRestartIsVisible(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Broken: broken, Linger: time.Millisecond}, true)
	admin, failed, done := f.admin(), 0, 0
	for _, c := range []struct {
		broken, want string
	}{{"", ""}, {"reload", "broken: reload"}, {"boot", "cannot start: config: broken: boot"}, {"", ""}} {
		if err := os.WriteFile(broken, []byte(c.broken), 0o600); err != nil {
			t.Fatal(err)
		}
		status, body := request(t, "tcp", admin, "POST", "/restart", "")
		if isBad := c.want != ""; isBad != (status == 500) || !isBad && status != 200 || !strings.Contains(body, c.want) {
			t.Errorf("%q: %d, %q", c.broken, status, body)
		}
		if c.want != "" {
			failed++
		} else {
			done++
		}
		s := statusAt(t, "tcp", admin)
		if s.Restarts != done || s.RestartsFailed != failed || !strings.HasSuffix(s.RestartError, c.want) || c.want == "" && s.RestartError != "" {
			t.Errorf("%q: %d restarts, %d failed, %q", c.broken, s.Restarts, s.RestartsFailed, s.RestartError)
		}
		if text := s.String(); c.want != "" && !strings.Contains(text, c.want) {
			t.Errorf("%q: %s", c.broken, text)
		}
	}
	for _, c := range []struct {
		method, fields string
		want           int
	}{
		{"GET", "", 405},
		{"POST", "Origin: http://elsewhere\r\n", 403},
		{"POST", "Sec-Fetch-Site: cross-site\r\n", 403},
	} {
		if status, body := request(t, "tcp", admin, c.method, "/restart", c.fields); status != c.want {
			t.Errorf("%+v: %d, %q", c, status, body)
		}
	}
	if s := statusAt(t, "tcp", admin); s.Restarts != done {
		t.Errorf("%d restarts, want %d", s.Restarts, done)
	}
}

// A request of a page is refused, however the names of its fields are spelled.
func TestRequestsOfPages(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"Origin", "null", true}, {"origin", "http://elsewhere", true}, {"Origin", "", false},
		{"sec-fetch-site", "cross-site", true}, {"Sec-Fetch-Site", "none", false}, {"Accept", "*/*", false},
	} {
		for _, keeps := range []bool{false, true} {
			var h sluice.RequestHeader
			if keeps {
				h.DisableNormalizing()
			}
			h.Set(c.name, c.value)
			if got := isOfPage(&h); got != c.want {
				t.Errorf("%s: %q, names kept %v: %v", c.name, c.value, keeps, got)
			}
		}
	}
}

// Without a fleet Restart fails.
func TestRestartWithoutFleet(t *testing.T) {
	if err := (&Prefork{}).Restart(context.Background()); !errors.Is(err, ErrNotMaster) {
		t.Error(err)
	}
}

// After a restart that was refused or failed, the replacement of a dead worker gets
// the last good configuration.
func TestLastGoodConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	f := start(t, setup{Workers: 1, Admin: "127.0.0.1:0", Config: file, Threshold: 99, Linger: time.Millisecond}, true)
	crashes := 0
	check := func(want string) {
		t.Helper()
		for range 2 {
			if got, err := f.get("/config"); got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			f.get("/crash")
			crashes++
			until(t, "it is replaced", func() bool {
				s := statusAt(t, "tcp", f.admin())
				return s.Ready && s.Crashes == crashes
			})
		}
	}
	check("first")
	for _, c := range []struct {
		text   string
		status int
		want   string
	}{
		{"", 500, "first"},
		{"bad", 500, "first"},
		{strings.Repeat("x", 40<<10), 500, "first"},
		{"second", 200, "second"},
		{"bad", 500, "second"},
	} {
		write(c.text)
		if status, body := request(t, "tcp", f.admin(), "POST", "/restart", ""); status != c.status {
			t.Errorf("%.20q: %d, %q", c.text, status, body)
		}
		until(t, "the old one is gone", func() bool { return len(statusAt(t, "tcp", f.admin()).Workers) == 1 })
		check(c.want)
	}
	f.cmd.Process.Signal(os.Interrupt)
	f.wait()
	write("")
	if status := start(t, setup{Workers: 1, Config: file}, false).wait(); status != 1 {
		t.Errorf("a first configuration that cannot be read: exit status %d", status)
	}
}
