package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	peer "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"

	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// serve serves s over HTTP/3 until the end of t, and returns its address.
func serve(t testing.TB, s *sluice.Server, config Config) string {
	t.Helper()
	_, addr := serveHTTP3(t, s, config)
	return addr
}

// newCertificate returns a configuration with a certificate.
func newCertificate(t testing.TB) *tls.Config {
	t.Helper()
	cert, err := selfsigned.New("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// serveHTTP3 is serve that also returns what serves.
func serveHTTP3(t testing.TB, s *sluice.Server, config Config) (*serving, string) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, config, c), c.LocalAddr().String()
}

// serveOn serves s on c until the end of t.
func serveOn(t testing.TB, s *sluice.Server, config Config, c net.PacketConn) *serving {
	t.Helper()
	s.TLSConfig = newCertificate(t)
	h := &Server{Server: s, Config: config}
	v, err := h.attach()
	if err != nil {
		t.Fatal(err)
	}
	private, err := tlsConfig(h.TLSConfig, v.cfg.TLS)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := v.run([]socket{{conn: c}}, private)
		c.Close()
		v.attachment.Detach()
		ended <- err
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.ShutdownWithContext(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return v
}

// clientTLS trusts everyone.
var clientTLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}

// newClient returns a client of another implementation.
func newClient(t testing.TB) *http.Client {
	tr := &peer.Transport{TLSClientConfig: clientTLS.Clone()}
	t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// fetch returns the status and the body of a response.
func fetch(t testing.TB, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("body: %v", err)
	}
	return resp, string(body)
}

func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A rawConn is a connection of a client that sends what it likes.
type rawConn struct {
	t testing.TB
	*quic.Conn
	control *quic.SendStream
}

// dialRaw opens a connection with a control stream.
func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	c := dialBare(t, addr)
	c.control = c.uni(0, wire.AppendSettings(nil, wire.Settings{}))
	return c
}

// dialBare opens a connection without streams.
func dialBare(t testing.TB, addr string) *rawConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	q, err := quic.DialAddr(ctx, addr, clientTLS.Clone(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.CloseWithError(0, "") })
	return &rawConn{t: t, Conn: q}
}

// uni opens a unidirectional stream that begins with a type and p.
func (c *rawConn) uni(kind uint64, p []byte) *quic.SendStream {
	c.t.Helper()
	s, err := c.OpenUniStream()
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := s.Write(append(wire.AppendVarint(nil, kind), p...)); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// open opens a stream that begins with p.
func (c *rawConn) open(p []byte) *quic.Stream {
	c.t.Helper()
	s, err := c.OpenStream()
	if err != nil {
		c.t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := s.Write(p); err != nil && !isPeerReset(err) { // what it wants no more, it stops
		c.t.Fatal(err)
	}
	return s
}

// exchange sends a request, and returns the answer.
func (c *rawConn) exchange(p []byte) ([]byte, error) {
	c.t.Helper()
	s := c.open(p)
	s.Close()
	return io.ReadAll(s)
}

// closedWith returns the code with which the server closes the connection.
func (c *rawConn) closedWith() wire.Code {
	c.t.Helper()
	select {
	case <-c.Context().Done():
	case <-time.After(20 * time.Second):
		c.t.Fatal("the connection is still open")
	}
	app, ok := context.Cause(c.Context()).(*quic.ApplicationError)
	if !ok || !app.Remote {
		c.t.Fatalf("the connection has ended with %v", context.Cause(c.Context()))
	}
	return wire.Code(app.ErrorCode)
}

// get returns a HEADERS frame of a GET request for a path, with more fields.
func get(path string, fields ...string) []byte {
	return head("GET", path, fields...)
}

func head(method, path string, fields ...string) []byte {
	section := []byte{0, 0}
	add := func(name, value string) {
		if len(name) >= 7 {
			section = append(section, 0x27, byte(len(name)-7))
		} else {
			section = append(section, 0x20|byte(len(name)))
		}
		section = append(section, name...)
		if len(value) >= 127 {
			section = append(section, 127, byte(len(value)-127)|0x80, byte((len(value)-127)>>7))
		} else {
			section = append(section, byte(len(value)))
		}
		section = append(section, value...)
	}
	for i, name := range []string{":method", ":scheme", ":authority", ":path"} {
		add(name, []string{method, "https", "localhost", path}[i])
	}
	for i := 0; i < len(fields); i += 2 {
		add(fields[i], fields[i+1])
	}
	return frame(wire.FrameHeaders, section)
}

// frame returns a frame.
func frame(kind wire.FrameType, payload []byte) []byte {
	return append(wire.AppendFrameHeader(nil, kind, uint64(len(payload))), payload...)
}

func data(p string) []byte { return frame(wire.FrameData, []byte(p)) }

// concat returns parts one after the other.
func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
