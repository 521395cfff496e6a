package websocket_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/tcplisten"
)

// page opens a WebSocket, has messages of several sizes echoed, closes, and reports.
const page = `<!doctype html><script>
const report = text => fetch("/report", {method: "POST", body: text})
const socket = new WebSocket("wss://" + location.host + "/echo", "echo")
socket.binaryType = "arraybuffer"
const sizes = [1, 1000, 65536, 1 << 20]
let echoed = 0
const next = () => socket.send(new Uint8Array(sizes[echoed]).fill(echoed + 1))
socket.onopen = next
socket.onerror = () => report("error")
socket.onmessage = e => {
	const got = new Uint8Array(e.data)
	if (got.length !== sizes[echoed] || got.some(b => b !== echoed + 1)) return report("a message differs")
	if (++echoed < sizes.length) return next()
	socket.close(1000, "done")
}
socket.onclose = e => report(["closed", socket.protocol, echoed, e.code, e.wasClean].join(" "))
</script>`

// selfSigned returns a certificate for localhost, and the hash of its key that Chromium
// wants to know.
func selfSigned(t *testing.T) (certificate tls.Certificate, spki string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(public)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, base64.StdEncoding.EncodeToString(hash[:])
}

// TestChromium: the WebSocket of a page that has come over HTTP/2 is a stream of the same
// connection. Without the option it comes over HTTP/1.1.
func TestChromium(t *testing.T) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	for name, echo := range map[string]sluice.RequestHandler{
		"gorilla/websocket": fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(gorillaEcho)), "package websocket": ownEcho(),
	} {
		t.Run(name, func(t *testing.T) { testChromium(t, program, echo) })
	}
}

func testChromium(t *testing.T, program string, echo sluice.RequestHandler) {
	for _, isOn := range []bool{true, false} {
		streams, conns, reports := make(chan uint64, 1), make(chan uint64, 2), make(chan string, 1)
		certificate, spki := selfSigned(t)
		s := &sluice.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/":
				conns <- ctx.ConnID()
				ctx.SetContentType("text/html")
				ctx.WriteString(page)
			case "/echo":
				conns <- ctx.ConnID()
				streams <- ctx.StreamID()
				echo(ctx)
			case "/report":
				reports <- string(ctx.PostBody())
			default:
				ctx.NotFound()
			}
		}}
		s.HTTP2.DisableWebSocket = !isOn
		ln, err := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.ServeTLS(ln, "", "") }()
		_, stop := browse(t, program, spki, fmt.Sprintf("https://localhost:%d/", ln.Addr().(*net.TCPAddr).Port))
		select {
		case report := <-reports:
			if report != "closed echo 4 1000 true" {
				t.Errorf("WebSocket %v: the page reports %q", isOn, report)
			}
			if pageConn, socketConn := <-conns, <-conns; (pageConn == socketConn) != isOn {
				t.Errorf("WebSocket %v: the page came over connection %d, the WebSocket over %d", isOn, pageConn, socketConn)
			}
			if stream := <-streams; (stream != 0) != isOn {
				t.Errorf("WebSocket %v: stream %d", isOn, stream)
			}
		case <-time.After(patience):
			t.Errorf("WebSocket %v: the page reports nothing", isOn)
		}
		stop()
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// browse opens a page in Chromium, until stop is called. It also returns the folder of
// Chromium's files.
func browse(t *testing.T, program, spki, url string, flags ...string) (profile string, stop func()) {
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(flags, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+profile,
		"--ignore-certificate-errors-spki-list="+spki, url)...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return profile, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(profile) // its other processes may still be ending
		if t.Failed() {
			t.Log(log.String())
		}
	}
}
