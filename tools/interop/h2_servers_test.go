package interop_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// An h2Server is a Server that speaks HTTP/2.
type h2Server struct {
	engine              sluice.Engine
	isSecure, isCompact bool
	port                int
}

func (s h2Server) url() string {
	if s.isSecure {
		return fmt.Sprintf("https://127.0.0.1:%d/", s.port)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", s.port)
}

// onH2Servers runs a test with each engine, over TCP and TLS, and with compact connections,
// which release their ciphers after milliseconds if there is the race detector.
func onH2Servers(t *testing.T, test func(t *testing.T, s h2Server)) {
	servers := []h2Server{{engine: sluice.EngineEpoll, isSecure: true, isCompact: true}}
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		servers = append(servers, h2Server{engine: engine}, h2Server{engine: engine, isSecure: true})
	}
	if runtime.GOOS != "linux" {
		servers = servers[1:]
	}
	for _, one := range servers {
		t.Run(fmt.Sprintf("%v/TLS %v, compact %v", one.engine, one.isSecure, one.isCompact), func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			one.port = ln.Addr().(*net.TCPAddr).Port
			s := &sluice.Server{Engine: one.engine, CompactTLS: one.isCompact, Handler: func(ctx *sluice.RequestCtx) {
				if one.isSecure {
					// crypto/tls exports keys, a compact connection does not.
					if _, err := ctx.TLSConnectionState().ExportKeyingMaterial("h2", nil, 16); (err != nil) != one.isCompact {
						t.Errorf("the connection is not what was asked for: %v", err)
					}
				}
				fmt.Fprintf(ctx, "%s %s %d %s", ctx.Method(), ctx.Request.Header.Protocol(), len(ctx.PostBody()), strings.Repeat("x", 100))
			}}
			served := make(chan error, 1)
			go func() { served <- serveH2(s, ln, one.isSecure) }()
			test(t, one)
			_ = ln.Close() // Serve may not have begun
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

func serveH2(s *sluice.Server, ln net.Listener, isSecure bool) error {
	if !isSecure {
		return s.Serve(ln)
	}
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		return err
	}
	return s.ServeTLSEmbed(ln, cert, key)
}

// TestH2Spec runs all cases of h2spec, the strict ones too.
func TestH2Spec(t *testing.T) {
	if testing.Short() {
		t.Skip("h2spec waits for time-outs")
	}
	onH2Servers(t, func(t *testing.T, s h2Server) {
		c := &config.Config{Host: "127.0.0.1", Port: s.port, Path: "/", Timeout: 5 * time.Second, MaxHeaderLen: 4000, Strict: true, TLS: s.isSecure, Insecure: true}
		passed := 0
		for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
			group.Test(c)
			passed += group.PassedCount
			checkGroup(t, group)
		}
		t.Logf("%d cases have passed", passed)
		if passed < 140 {
			t.Errorf("only %d cases have passed", passed)
		}
	})
}

// checkGroup reports the cases of a group that have failed.
func checkGroup(t *testing.T, group *spec.TestGroup) {
	for _, cases := range [][]*spec.TestCase{group.Tests, group.StrictTests} {
		for _, one := range cases {
			if r := one.Result; r != nil && (r.Failed || r.Skipped) {
				t.Errorf("%s, %s: %v", group.ID(), one.Desc, r.Error)
			}
		}
	}
	for _, below := range group.Groups {
		checkGroup(t, below)
	}
}

// TestCurlH2: curl speaks HTTP/2 with us, by prior knowledge and by ALPN.
func TestCurlH2(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip(err)
	}
	if features, _ := exec.CommandContext(t.Context(), curl, "--version").Output(); !strings.Contains(string(features), "HTTP2") {
		t.Skip("this curl does not speak HTTP/2")
	}
	onH2Servers(t, func(t *testing.T, s h2Server) {
		option := "--http2-prior-knowledge"
		if s.isSecure {
			option = "--http2"
		}
		body := filepath.Join(t.TempDir(), "body")
		if err := writeFile(body, 300_000); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			args []string
			want string
		}{
			{nil, "GET HTTP/2.0 0"},
			{[]string{"--data-binary", "@" + body}, "POST HTTP/2.0 300000"},
			{[]string{"--data-binary", "@" + body, "-H", "Expect: 100-continue"}, "POST HTTP/2.0 300000"},
			{[]string{"-T", body, "-H", "Content-Length:"}, "PUT HTTP/2.0 300000"},
		} {
			args := append([]string{"-sSk", "--max-time", "20", option, "-w", " %{http_version} %{http_code}"}, test.args...)
			out, err := exec.CommandContext(t.Context(), curl, append(args, s.url())...).CombinedOutput()
			if got := string(out); err != nil || !strings.HasPrefix(got, test.want) || !strings.HasSuffix(got, " 2 200") {
				t.Errorf("curl %v: %q, %v", test.args, got, err)
			}
		}
	})
}

// writeFile makes a file of size bytes.
func writeFile(name string, size int) error { return os.WriteFile(name, make([]byte, size), 0o600) }
