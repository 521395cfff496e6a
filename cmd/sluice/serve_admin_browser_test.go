//go:build unix

package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The page of --admin shows requests and rolling restarts as they happen, on a wide screen and
// on a phone, and its scripts never complain.
func TestAdminPage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := findBrowser(t)
	p := startPreforked(t, "--admin", "127.0.0.1:0")
	admin := regexp.MustCompile(`status and metrics: (\S+)`)
	eventually(t, "the address of --admin", func() bool { return admin.MatchString(p.text()) })
	page := "http://" + admin.FindStringSubmatch(p.text())[1] + "/"
	for name, size := range map[string][2]int{"admin-wide": {1280, 900}, "admin-phone": {390, 844}} {
		visited := make(chan string)
		go func() {
			visited <- string(b.run(t, page, size[0], size[1], "--timeout=8000", "--dump-dom"))
		}()
		var shown string
		for i := 0; shown == ""; i++ {
			if _, err := p.get("/plaintext"); err != nil {
				t.Error(err)
			}
			if i%40 == 39 {
				p.Process.Signal(syscall.SIGHUP)
			}
			select {
			case shown = <-visited:
			case <-time.After(50 * time.Millisecond):
			}
		}
		for _, want := range []string{
			`role="status" class="">live<`, "<span>requests/s</span>", `<span class="good">ready</span>`, "2 of 2",
			" was started, version ", " is draining", "restart",
		} {
			if !strings.Contains(shown, want) {
				t.Errorf("%s: no %q in %s", name, want, shown)
			}
		}
		checkInk(t, name, b.screenshot(t, name, page, size[0], size[1]))
	}
}
