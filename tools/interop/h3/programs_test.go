package h3

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	quichttp3 "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice/sse"
)

// programPatience is how long a program may take.
const programPatience = 40 * time.Second

// find returns the path of a program: wanted if it is set, else the one in PATH. It skips
// the test if there is none.
func find(t *testing.T, name, wanted string) string {
	t.Helper()
	if wanted != "" {
		return wanted
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("skipped: %s is not installed", name)
	}
	return path
}

// publish publishes events until the end of the test.
func (g *target) publish(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if g.hub.Len("all") > 0 {
				_ = g.hub.Publish("all", sse.Event{Data: []byte("tick")})
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// TestScripts: clients in Python, one with aioquic and one with libcurl, make the checks.
func TestScripts(t *testing.T) {
	common := []string{"get", "post of 1 KB", "post of 1 MiB", "204", "large", "stream", "trailers", "hints", "events", "reset", "parallel"}
	for name, checks := range map[string][]string{
		"aioquic": append([]string{"websocket"}, common...), "curl": append([]string{"head"}, common...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			python := find(t, "python3", os.Getenv("SLUICE_PYTHON_H3"))
			module := map[string]string{"aioquic": "aioquic", "curl": "curl_cffi"}[name]
			if out, err := exec.Command(python, "-c", "import "+module).CombinedOutput(); err != nil {
				t.Skipf("%s has no %s: %.200s", python, module, out)
			}
			g := newTarget(t, nil)
			g.publish(t)
			host, port, _ := net.SplitHostPort(g.addr)
			ctx, cancel := context.WithTimeout(t.Context(), programPatience)
			defer cancel()
			out, err := exec.CommandContext(ctx, python, "testdata/client_"+name+".py", host, port).CombinedOutput()
			if err != nil {
				t.Errorf("%v", err)
			}
			good := make(map[string]bool)
			for line := range strings.Lines(string(out)) {
				what, isGood := strings.CutPrefix(strings.TrimSpace(line), "ok ")
				if good[what] = isGood; !isGood && what != "end" {
					t.Error(what)
				}
			}
			for _, check := range checks {
				if !good[check] {
					t.Errorf("not good: %s", check)
				}
			}
			select {
			case <-g.canceled:
			case <-time.After(patience):
				t.Error("the handler was not told of a reset")
			}
		})
	}
}

// resources is how many resources the page loads.
const resources = 50

// page loads resources, makes an upload, and opens an EventSource and a WebSocket. It reports
// what of this has worked.
const page = `<!doctype html><title>page</title><script>
const report = text => fetch("/report", {method: "POST", body: text})
const events = () => new Promise((done, failed) => {
	const source = new EventSource("/events")
	let count = 0
	source.onerror = () => failed("events")
	source.onmessage = e => { if (++count == 3) { source.close(); done(e.data) } }
})
const socket = () => new Promise((done, failed) => {
	const socket = new WebSocket("wss://" + location.host + "/ws")
	const sizes = [1, 1000, 65536, 1 << 20]
	let echoed = 0
	socket.binaryType = "arraybuffer"
	const next = () => socket.send(new Uint8Array(sizes[echoed]).fill(echoed + 1))
	socket.onopen = next
	socket.onerror = () => failed("socket")
	socket.onmessage = e => {
		const got = new Uint8Array(e.data)
		if (got.length !== sizes[echoed] || got.some(b => b !== echoed + 1)) return failed("a message differs")
		if (++echoed < sizes.length) return next()
		socket.close(1000)
	}
	socket.onclose = e => done([echoed, e.code, e.wasClean].join(" "))
})
onload = async () => {
	try {
		const got = await Promise.all([...Array(RESOURCES).keys()].map(i => fetch("/hello?" + i).then(r => r.text())))
		const upload = await fetch("/echo", {method: "POST", body: new Uint8Array(1 << 20)}).then(r => r.text())
		const large = await fetch("/large").then(r => r.arrayBuffer())
		const tick = await events()
		const closed = await socket()
		const all = performance.getEntriesByType("resource").filter(e => e.name.includes("/hello"))
		const page = performance.getEntriesByType("navigation")[0].nextHopProtocol
		report(["page", page, "resources", got.filter(text => text == "Hello, World!").length, "by h3", all.filter(e => e.nextHopProtocol == "h3").length,
			"upload", upload, "large", large.byteLength, tick, "socket", closed].join(" "))
	} catch (e) { report("failed: " + e) }
}
</script>`

// TestChromium: a page over HTTP/3 with many resources, an upload, events and a WebSocket.
// Nothing listens on TCP.
func TestChromium(t *testing.T) {
	chromium := find(t, "chromium", "")
	var spki string
	g := newTarget(t, func(g *target) {
		leaf, err := x509.ParseCertificate(g.h.TLSConfig.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		hash := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
		spki = base64.StdEncoding.EncodeToString(hash[:])
	})
	g.publish(t)
	_, port, _ := net.SplitHostPort(g.addr)
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--no-proxy-server", "--user-data-dir="+profile,
		"--host-resolver-rules=MAP localhost 127.0.0.1", "--origin-to-force-quic-on=localhost:"+port, "--enable-features=EnableWebsocketsOverHttp3",
		"--ignore-certificate-errors-spki-list="+spki, "https://localhost:"+port+"/page")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(profile) // its other processes may still be ending
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	want := fmt.Sprintf("page h3 resources %d by h3 %d upload %s large %d tick socket 4 1000 true", resources, resources, sumOf(make([]byte, 1<<20)), largeSize)
	select {
	case got := <-g.reports:
		if got != want {
			t.Errorf("the page reports %q, want %q", got, want)
		}
	case <-time.After(programPatience):
		t.Error("the page reports nothing")
	}
}

// TestGoClient: quic-go/http3's client.
func TestGoClient(t *testing.T) {
	transport := &quichttp3.Transport{TLSClientConfig: clientTLS()}
	defer transport.Close()
	g := newTarget(t, nil)
	for i := range 60 {
		if err := exchange(t.Context(), transport, "https://"+g.addr, i); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+g.addr+"/trailers", strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"X-Sum": {"7"}}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for b := make([]byte, 100); err == nil; {
		_, err = resp.Body.Read(b)
	}
	if got := resp.Trailer.Get("X-Sum"); got != "7" {
		t.Errorf("trailer field %q", got)
	}
}
