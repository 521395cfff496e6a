package interop_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// behindProxy is a Sluice that requires the PROXY protocol, and says what it knows of a
// connection.
func behindProxy(t *testing.T, engine sluice.Engine, certPEM, keyPEM []byte) (addr string) {
	t.Helper()
	s := &sluice.Server{
		Engine: engine, ProxyProtocol: sluice.ProxyProtocolRequire,
		ProxyTrusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Handler: func(ctx *sluice.RequestCtx) {
			info, ok := ctx.ProxyInfo()
			fmt.Fprintf(ctx, "%v %v %v tls=%v version=%d name=%q alpn=%q", ctx.RemoteAddr(), ctx.LocalAddr(), ok, ctx.IsTLS(), info.Version, info.ServerName, info.ALPN)
			if info.TLS != nil {
				fmt.Fprintf(ctx, " client=%s %s", info.TLS.Version, info.TLS.Cipher)
			}
		},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		if certPEM != nil {
			served <- s.ServeTLSEmbed(ln, certPEM, keyPEM)
			return
		}
		served <- s.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		_ = s.Shutdown()
		<-served
	})
	return ln.Addr().String()
}

// startProxy starts a proxy with a configuration in dir, and waits until it accepts at addr.
func startProxy(t *testing.T, addr, binary string, args ...string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	for end := time.Now().Add(upstreamPatience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not accept: %v\n%s", binary, err, output.Bytes())
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// askThrough asks the proxy at addr, and returns the answer and the client's address.
func askThrough(t *testing.T, scheme, addr string, roots *x509.CertPool) (answer, client string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"http/1.1"}}}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			client = c.LocalAddr().String()
		}
		return c, err
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: upstreamPatience}).Get(scheme + "://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), client
}

func onEachEngine(t *testing.T, test func(t *testing.T, e sluice.Engine)) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) { test(t, e) })
	}
}

const haproxyConfig = `
defaults
	mode tcp
	timeout connect 5s
	timeout client 10s
	timeout server 10s
frontend f
	bind %[1]s
	default_backend b
frontend secure
	bind %[2]s ssl crt %[3]s/both.pem alpn http/1.1
	default_backend b2
frontend web
	mode http
	bind %[4]s
	default_backend b3
backend b
	server s %[5]s %[6]s
backend b2
	server s %[5]s send-proxy-v2 proxy-v2-options ssl,ssl-cipher,authority,crc32c
backend b3
	mode http
	server s %[5]s send-proxy-v2 check-send-proxy check inter 200ms
`

// Behind a real HAProxy, with both versions, with TLS that it ends and TLS that it passes on,
// and with its health checks.
func TestProxyProtocolHAProxy(t *testing.T) {
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("there is no haproxy: apt-get install haproxy")
	}
	certPEM, keyPEM, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	roots := rootsOf(t, certPEM)
	onEachEngine(t, func(t *testing.T, e sluice.Engine) {
		for version, option := range map[int]string{1: "send-proxy", 2: "send-proxy-v2 proxy-v2-options crc32c"} {
			dir, plain, secure, web := t.TempDir(), freeAddr(t), freeAddr(t), freeAddr(t)
			config := filepath.Join(dir, "haproxy.cfg")
			write := func(name string, text []byte) {
				if err := os.WriteFile(name, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(filepath.Join(dir, "both.pem"), append(append([]byte(nil), certPEM...), keyPEM...))
			write(config, fmt.Appendf(nil, haproxyConfig, plain, secure, dir, web, behindProxy(t, e, nil, nil), option))
			startProxy(t, plain, binary, "-db", "-f", config)

			answer, client := askThrough(t, "http", plain, nil)
			if want := fmt.Sprintf("%s %s true tls=false version=%d name=\"\"", client, plain, version); !strings.HasPrefix(answer, want) {
				t.Errorf("%s: %s, want %s...", option, answer, want)
			}
			answer, client = askThrough(t, "http", web, nil)
			if want := fmt.Sprintf("%s %s true ", client, web); !strings.HasPrefix(answer, want) {
				t.Errorf("mode http: %s, want %s...", answer, want)
			}
			answer, client = askThrough(t, "https", secure, roots)
			if want := fmt.Sprintf("%s %s true tls=false version=2 name=\"localhost\" alpn=\"http/1.1\"", client, secure); !strings.HasPrefix(answer, want) || !strings.Contains(answer, "client=TLSv1.") {
				t.Errorf("TLS that HAProxy ends: %s, want %s...", answer, want)
			}
		}
		// TLS passes through: the header comes before it.
		dir, through := t.TempDir(), freeAddr(t)
		config := filepath.Join(dir, "haproxy.cfg")
		text := fmt.Sprintf("defaults\n mode tcp\n timeout connect 5s\n timeout client 10s\n timeout server 10s\nlisten l\n bind %s\n server s %s send-proxy-v2\n",
			through, behindProxy(t, e, certPEM, keyPEM))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		startProxy(t, through, binary, "-db", "-f", config)
		answer, client := askThrough(t, "https", through, roots)
		if want := fmt.Sprintf("%s %s true tls=true version=2", client, through); !strings.HasPrefix(answer, want) {
			t.Errorf("TLS passes through: %s, want %s...", answer, want)
		}
	})
}

func rootsOf(t *testing.T, certPEM []byte) *x509.CertPool {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return roots
}

// Behind a real nginx, whose module "stream" sends version 1.
func TestProxyProtocolNginx(t *testing.T) {
	const module = "/usr/lib/nginx/modules/ngx_stream_module.so"
	binary, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("there is no nginx")
	}
	if _, err := os.Stat(module); err != nil {
		t.Skip("nginx has no module stream: apt-get install libnginx-mod-stream")
	}
	onEachEngine(t, func(t *testing.T, e sluice.Engine) {
		dir, addr := t.TempDir(), freeAddr(t)
		text := fmt.Sprintf("load_module %s;\ndaemon off; master_process off;\npid %s/pid;\nerror_log stderr;\nevents { }\nstream { server { listen %s; proxy_pass %s; proxy_protocol on; } }\n",
			module, dir, addr, behindProxy(t, e, nil, nil))
		config := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		startProxy(t, addr, binary, "-p", dir, "-e", "stderr", "-c", config)
		answer, client := askThrough(t, "http", addr, nil)
		if want := fmt.Sprintf("%s %s true tls=false version=1", client, addr); !strings.HasPrefix(answer, want) {
			t.Errorf("%s, want %s...", answer, want)
		}
	})
}
