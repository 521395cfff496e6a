package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// start serves until the test ends, and returns the address.
func start(t *testing.T, isSecure bool) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer("secret")
	served := make(chan error, 1)
	go func() { served <- serve(s, ln, isSecure) }()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// onBoth runs a test in plain text and over TLS.
func onBoth(t *testing.T, test func(t *testing.T, isSecure bool, addr string)) {
	for _, isSecure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", isSecure), func(t *testing.T) { test(t, isSecure, start(t, isSecure)) })
	}
}

// ask makes a request of HTTP/1.1.
func ask(t *testing.T, method, addr string, isSecure bool, path string) string {
	t.Helper()
	url := "http://" + addr + path
	if isSecure {
		url = "https://" + addr + path
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, isSecure bool, addr string) {
		var out bytes.Buffer
		if err := call(t.Context(), addr, isSecure, "secret", &out); err != nil {
			t.Fatal(err)
		}
		const want = `a call: SERVING
a stream's first message: SERVING
an error of the service: NotFound
without a token: Unauthenticated, a token is missing
`
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPagesBesideCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, isSecure bool, addr string) {
		if got, want := ask(t, http.MethodGet, addr, isSecure, "/"), fmt.Sprintf("HTTP/1.1, TLS: %t\n", isSecure); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := ask(t, http.MethodGet, addr, isSecure, "/drain"); got != "POST, please" {
			t.Errorf("got %q", got)
		}
	})
}

// A request of HTTP/1.1 becomes a message of the streams of gRPC that are open.
func TestDrainIsSeenByWatchers(t *testing.T) {
	onBoth(t, func(t *testing.T, isSecure bool, addr string) {
		c, err := dial(addr, isSecure)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
		updates, err := healthpb.NewHealthClient(c).Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
			update, err := updates.Recv()
			if err != nil || update.Status != want {
				t.Fatalf("got %v, %v, want %v", update, err, want)
			}
			ask(t, http.MethodPost, addr, isSecure, "/drain")
		}
	})
}

// What refuse sends is Trailers-Only: one HEADERS frame, which ends the stream.
func TestRefusalIsOneFrame(t *testing.T) {
	conn, err := net.Dial("tcp", start(t, false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range []string{":method POST", ":scheme http", ":authority x", ":path /grpc.health.v1.Health/Check", "content-type application/grpc", "te trailers"} {
		name, value, _ := strings.Cut(f, " ")
		if err := encoder.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	for _, err := range []error{err, framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		head, ok := frame.(*http2.MetaHeadersFrame)
		if !ok {
			continue // settings
		}
		got := make(map[string]string)
		for _, f := range head.Fields {
			got[f.Name] = f.Value
		}
		if !head.StreamEnded() || got[":status"] != "200" || got["content-type"] != "application/grpc" || got["grpc-status"] != "16" {
			t.Errorf("ends the stream: %t, %v", head.StreamEnded(), got)
		}
		return
	}
}
