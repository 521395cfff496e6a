package programs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// A proxy is a program that speaks HTTP/2 in plain text on both sides.
type proxy struct {
	name, wanted string // wanted is the variable with its path, if it has one
	config       string // LISTEN, HOST, PORT and FOLDER are replaced
	args         func(config string) []string
	shows        shown
}

var proxies = []proxy{
	{"haproxy", "", `
global
	log stderr local0 warning
defaults
	mode http
	timeout connect 10s
	timeout client 60s
	timeout server 60s
	retries 3
	retry-on all-retryable-errors
frontend in
	bind LISTEN
	default_backend sluice
backend sluice
	server one HOST:PORT proto h2
`, func(config string) []string { return []string{"-db", "-f", config} }, showsTrailers | takesHints | showsLength},
	{"nginx", "", `
daemon off; master_process off; pid FOLDER/pid; error_log stderr;
events { }
http {
	access_log off;
	client_max_body_size 0; client_body_temp_path FOLDER/body;
	upstream sluice { server HOST:PORT max_fails=0; server HOST:PORT max_fails=0; keepalive 8; }
	server {
		listen LISTEN http2;
		location / { grpc_pass grpc://sluice; grpc_next_upstream error timeout non_idempotent; }
	}
}
`, func(config string) []string {
		return []string{"-e", "stderr", "-p", filepath.Dir(config), "-c", config}
	}, 0},
	{"envoy", "SLUICE_ENVOY", `
static_resources:
  listeners:
  - address: {socket_address: {address: HOST, port_value: LISTEN_PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          proxy_100_continue: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                route: {cluster: sluice, timeout: 60s, retry_policy: {retry_on: "refused-stream,reset,connect-failure", num_retries: 5}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: sluice
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: sluice
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: HOST, port_value: PORT}}}}]}]
`, func(config string) []string {
		return []string{"-c", config, "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"}
	}, showsTrailers | takesHints | showsLength},
}

// onProxies runs a test before each proxy and engine.
func onProxies(t *testing.T, test func(t *testing.T, p proxy, engine sluice.Engine)) {
	for _, p := range proxies {
		for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
			t.Run(fmt.Sprint(p.name, "/", engine), func(t *testing.T) {
				t.Parallel()
				p.name = find(t, p.name, os.Getenv(p.wanted)) // before a server is started
				test(t, p, engine)
			})
		}
	}
}

// start starts p before the server at addr, and returns its own address.
func (p proxy) start(t *testing.T, addr string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	free.Close()
	folder := t.TempDir()
	host, port, _ := net.SplitHostPort(addr)
	_, listenPort, _ := net.SplitHostPort(listen)
	text := strings.NewReplacer("LISTEN_PORT", listenPort, "LISTEN", listen, "HOST", host, "PORT", port, "FOLDER", folder).Replace(p.config)
	config := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.Command(p.name, p.args(config)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %.3000s", p.name, log.String())
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			c.Close()
			return listen
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen: %v", p.name, err)
		}
	}
}

// TestProxies: proxies with HTTP/2 to the server, also while it is replaced.
func TestProxies(t *testing.T) {
	t.Parallel()
	onProxies(t, func(t *testing.T, p proxy, engine sluice.Engine) {
		g := newTarget(t, engine, false, false)
		u := &user{t: t, target: g, url: "http://" + p.start(t, g.ln.Addr().String()), client: newClient(t), shows: p.shows}
		u.check()
		u.load()
	})
}

// serveGRPC serves the test service of gRPC, and returns its address.
func serveGRPC(t *testing.T, engine sluice.Engine) string {
	t.Helper()
	services := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(services, interop.NewTestServer())
	reflection.Register(services)
	s := &sluice.Server{Engine: engine, StreamRequestBody: true, Handler: fasthttpadaptor.NewFastHTTPHandler(services)}
	ln := listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ln.Close() // Serve may not have begun
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// TestGRPCProxies: calls of gRPC through proxies.
func TestGRPCProxies(t *testing.T) {
	t.Parallel()
	onProxies(t, func(t *testing.T, p proxy, engine sluice.Engine) {
		c, err := grpc.NewClient(p.start(t, serveGRPC(t, engine)), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		client := testgrpc.NewTestServiceClient(c)
		interop.DoEmptyUnaryCall(t.Context(), client)
		interop.DoLargeUnaryCall(t.Context(), client)
		interop.DoClientStreaming(t.Context(), client)
		interop.DoServerStreaming(t.Context(), client)
		interop.DoPingPong(t.Context(), client)
		interop.DoStatusCodeAndMessage(t.Context(), client)
	})
}

// TestGRPCurl calls a method that it learns by reflection.
func TestGRPCurl(t *testing.T) {
	t.Parallel()
	program := find(t, "grpcurl", os.Getenv("SLUICE_GRPCURL"))
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		addr := serveGRPC(t, engine)
		runCases(t, program, []commandCase{
			{"list", []string{"-plaintext", addr, "list"}, `grpc.testing.TestService`},
			{"call", []string{"-plaintext", "-d", `{"response_size": 10}`, addr, "grpc.testing.TestService/UnaryCall"}, `"body": "AAAAAAAAAAAAAA=="`},
		})
	}
}
