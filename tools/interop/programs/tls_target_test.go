package programs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
)

const (
	uploadSize   = 1 << 20
	downloadSize = 10 << 20
	// coolingTime is longer than a compact connection keeps its ciphers after its last use.
	coolingTime = 3500 * time.Millisecond
	// fleetVariable makes the test binary a fleet of servers: see playFleet.
	fleetVariable = "SLUICE_INTEROP_FLEET"
)

// pattern returns a body in which a byte that is lost or moved is noticed.
func pattern(size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i % 251)
	}
	return body
}

// What is sent. A process that sends nothing of it does not make it.
var (
	uploaded   = sync.OnceValue(func() []byte { return pattern(uploadSize) })
	downloaded = sync.OnceValue(func() []byte { return pattern(downloadSize) })
)

// A visit is what the server says of a request's connection.
type visit struct {
	IsCompact    bool
	Version      string
	Suite        string
	Protocol     string // of ALPN
	IsResumed    bool
	Certificates int    // of the client
	Remote       string // the client's address
	Process      int
}

// isCompact reports whether the connection is compact: then it has not kept the secret for
// other keys.
func isCompact(said *tls.ConnectionState) bool {
	_, err := said.ExportKeyingMaterial("EXPERIMENTAL-sluice", nil, 16)
	return err != nil
}

// answerTLS answers the peers of TLS.
func answerTLS(ctx *sluice.RequestCtx) {
	switch string(ctx.Path()) {
	case "/who":
		said := ctx.TLSConnectionState()
		v, _ := json.Marshal(visit{
			isCompact(said), tls.VersionName(said.Version), tls.CipherSuiteName(said.CipherSuite), said.NegotiatedProtocol, said.DidResume,
			len(said.PeerCertificates), ctx.RemoteAddr().String(), os.Getpid(),
		})
		ctx.SetBody(v)
	case "/upload":
		if !bytes.Equal(ctx.PostBody(), uploaded()) {
			ctx.Error("the body differs", 400)
		}
	case "/download":
		ctx.Response.SetBodyRaw(downloaded())
	case "/bye":
		ctx.Response.SetBodyStream(strings.NewReader("bye"), -1) // HTTP/1.0: up to the end of the connection
	default:
		ctx.NotFound()
	}
}

// newTLSServer returns a server for ServeTLS. It asks clients for certificates.
func newTLSServer(isCompact bool) *sluice.Server {
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		panic(err)
	}
	s := &sluice.Server{
		Engine: sluice.EngineEpoll, CompactTLS: isCompact, Handler: answerTLS, MaxRequestBodySize: 2 * uploadSize,
		TLSConfig: &tls.Config{ClientAuth: tls.RequestClientCert},
	}
	if err := s.AppendCertEmbed(cert, key); err != nil {
		panic(err)
	}
	return s
}

// serveTLS serves until the test ends, and returns the address.
func serveTLS(t *testing.T, isCompact bool) string {
	t.Helper()
	s, ln := newTLSServer(isCompact), listen(t)
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(ln, "", "") }()
	t.Cleanup(func() {
		ln.Close() // ServeTLS may not have begun
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(s.ShutdownWithContext(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// clientCertificate returns the names of the files of a client's certificate and key.
func clientCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	certPEM, keyPEM, err := sluice.GenerateTestCertificate("client")
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	if err := errors.Join(err, os.WriteFile(cert, certPEM, 0o600), os.WriteFile(key, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestMain(m *testing.M) {
	if os.Getenv(fleetVariable) != "" {
		playFleet()
	}
	if os.Getenv(shimVariable) != "" {
		playShim()
	}
	os.Exit(m.Run())
}

// playFleet is the master, or a worker, of a fleet with compact TLS. It ends with its
// standard input.
func playFleet() {
	p := prefork.New(newTLSServer(true))
	p.Workers, p.IdleLinger, p.DrainTimeout, p.SoakTime = 1, patience, patience+5*time.Second, -1
	p.OnMasterReady = func(pids []int) error { fmt.Println("worker", pids[0]); return nil }
	p.OnFleetReady = func() { fmt.Println("ready", p.Addrs()[0]) }
	if !prefork.IsChild() {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}()
	}
	if err := p.ListenAndServeTLS("127.0.0.1:0", "", ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A fleet is a master with one worker.
type fleet struct {
	t      *testing.T
	addr   string
	worker int // the first one
	master *exec.Cmd
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, master: exec.Command("/proc/self/exe")}
	f.master.Env = append(os.Environ(), fleetVariable+"=1")
	var log strings.Builder
	f.master.Stderr = &log
	stdin, err := f.master.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := f.master.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.master.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = f.master.Wait()
		if t.Failed() {
			t.Logf("the fleet: %.3000s", log.String())
		}
	})
	for lines := bufio.NewScanner(stdout); f.addr == "" && lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "worker":
			_, _ = fmt.Sscan(rest, &f.worker)
		case "ready":
			f.addr = rest
		}
	}
	if f.addr == "" {
		t.Fatal("the fleet does not serve")
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return f
}

// restart replaces the worker, and returns when it has gone: its connections are with its
// successor then.
func (f *fleet) restart() {
	f.t.Helper()
	if err := f.master.Process.Signal(syscall.SIGHUP); err != nil {
		f.t.Error(err)
		return
	}
	for end := time.Now().Add(patience); syscall.Kill(f.worker, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Error("the worker stays")
			return
		}
	}
}
