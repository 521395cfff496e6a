package programs

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestChromium loads a page with many resources. Chromium must get each by HTTP/2.
func TestChromium(t *testing.T) {
	t.Parallel()
	chromium := find(t, "chromium")
	onTargets(t, func(t *testing.T, g *target) {
		protocol, count := "h2", resources
		if !g.isSecure { // browsers speak HTTP/1.1 in plain text
			protocol, count = "http/1.1", 0
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
			"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
			"--disable-default-apps", "--no-proxy-server", "--ignore-certificate-errors", "--user-data-dir="+t.TempDir(),
			"--virtual-time-budget=20000", "--dump-dom", g.url()+"/page")
		out, err := cmd.Output()
		want := fmt.Sprintf("page %s, resources %d, by h2 %d", protocol, resources, count)
		if err != nil || !strings.Contains(string(out), want) {
			_, got, _ := strings.Cut(string(out), `id="out"`)
			t.Errorf("%.200s, %v, want %s", got, err, want)
		}
	})
}
