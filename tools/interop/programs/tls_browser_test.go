package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// tourPage makes requests before and after a pause, checks both bodies, and reports.
var tourPage = fmt.Sprintf(`<!doctype html><title>tour</title><script>
const pattern = size => Uint8Array.from({length: size}, (_, i) => i %% 251)
const visit = async () => (await fetch("/who?" + Math.random())).json()
async function tour() {
	const visits = []
	for (let round = 0; round < 2; round++) {
		for (let i = 0; i < 20; i++) visits.push(await visit())
		if (round == 0) await new Promise(resolve => setTimeout(resolve, %d))
		const sent = await fetch("/upload", {method: "POST", body: pattern(%d)})
		if (!sent.ok) throw new Error("the upload differs")
		const got = new Uint8Array(await (await fetch("/download?" + round)).arrayBuffer())
		if (got.length != %d || got.some((b, i) => b != i %% 251)) throw new Error("the download differs")
	}
	return JSON.stringify(visits)
}
tour().catch(e => "failed: " + e).then(text => fetch("/report", {method: "POST", body: text}))
</script>`, coolingTime.Milliseconds(), uploadSize, downloadSize)

// TestChromiumTLS: a page in Chromium uses compact connections, by either protocol.
func TestChromiumTLS(t *testing.T) {
	t.Parallel()
	chromium := find(t, "chromium")
	for _, isHTTP2 := range []bool{true, false} {
		protocol := map[bool]string{true: "h2", false: "http/1.1"}[isHTTP2]
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			reports := make(chan string, 1)
			s, ln := newTLSServer(true), listen(t)
			s.TLSConfig.ClientAuth = 0 // a browser asks its user which certificate
			s.HTTP2.Disable = !isHTTP2
			s.Handler = func(ctx *sluice.RequestCtx) {
				switch string(ctx.Path()) {
				case "/":
					ctx.SetContentType("text/html")
					ctx.SetBodyString(tourPage)
				case "/report":
					reports <- string(ctx.PostBody())
				default:
					answerTLS(ctx)
				}
			}
			served := make(chan error, 1)
			go func() { served <- s.ServeTLS(ln, "", "") }()
			defer func() {
				ln.Close()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := errors.Join(s.ShutdownWithContext(ctx), <-served); err != nil {
					t.Error(err)
				}
			}()
			profile, err := os.MkdirTemp("", "chromium")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
				"--disable-background-networking", "--disable-component-update", "--no-proxy-server", "--ignore-certificate-errors",
				"--user-data-dir="+profile, "https://"+ln.Addr().String()+"/")
			var log strings.Builder
			cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 5*time.Second
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				_ = os.RemoveAll(profile) // its other processes may still be ending
			}()
			select {
			case report := <-reports:
				checkReport(t, report, protocol)
			case <-time.After(2 * patience):
				t.Errorf("the page reports nothing: %.2000s", log.String())
			}
		})
	}
}

// checkReport checks the visits that a page has reported.
func checkReport(t *testing.T, report, protocol string) {
	t.Helper()
	var visits []visit
	if err := json.Unmarshal([]byte(report), &visits); err != nil || len(visits) != 40 {
		t.Errorf("%.300s: %v", report, err)
		return
	}
	want := compactVisit
	want.Protocol = protocol
	if protocol == "h2" {
		want.Remote = visits[0].Remote
	} else { // of HTTP/1.1 a browser opens several connections, which may resume the session
		for i := range visits {
			visits[i].Remote, visits[i].IsResumed = "", false
		}
	}
	checkVisits(t, visits, want)
}
