package sluice_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluicehttp/sluice"
)

// onEachHTTP2Network runs a test over TCP by each engine, in memory, and over TLS.
func onEachHTTP2Network(t *testing.T, test func(t *testing.T, n network)) {
	t.Helper()
	networks := append(overTCPByEach(), inMemory())
	for _, n := range slices.Clone(networks) {
		networks = append(networks, overTLS(t, n, "h2"))
	}
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) { test(t, n) })
	}
}

// http2Client returns a client that speaks only HTTP/2 with r.
func (r *rig) http2Client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) {
		c, err := r.connect()
		if secure, ok := c.(*tls.Conn); ok {
			err = secure.Handshake()
		}
		return c, err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, DialContext: dial, DialTLSContext: dial}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// scheme is the scheme of requests over n.
func (n network) scheme() string {
	if strings.HasPrefix(n.name, "tls/") {
		return "https"
	}
	return "http"
}

// serveHTTP2 serves with HTTP/2 switched on.
func serveHTTP2(t *testing.T, n network, s *sluice.Server) *rig {
	t.Helper()
	return serve(t, n, s)
}

// A framer is a client of HTTP/2 that sends and receives single frames.
type framer struct {
	*http2.Framer
	t       *testing.T
	conn    net.Conn
	encoder *hpack.Encoder
	block   bytes.Buffer
	table   *hpack.Decoder
}

// frames opens a connection of HTTP/2.
func (r *rig) frames(settings ...http2.Setting) *framer {
	r.t.Helper()
	p := r.dial()
	f := &framer{Framer: http2.NewFramer(p.Conn, p.r), t: r.t, conn: p.Conn, table: hpack.NewDecoder(4096, nil)}
	f.encoder = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = f.table
	p.send(http2.ClientPreface)
	f.must(f.WriteSettings(settings...))
	return f
}

func (f *framer) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// head sends the head of a request: pairs of names and values after the pseudo-fields.
func (f *framer) head(stream uint32, method, path string, isLast bool, pairs ...string) {
	f.t.Helper()
	f.send(stream, isLast, append([]string{":method", method, ":scheme", "http", ":authority", "h", ":path", path}, pairs...))
}

// send sends a head: pairs of names and values.
func (f *framer) send(stream uint32, isLast bool, pairs []string) {
	f.t.Helper()
	f.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		f.must(f.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block.Bytes(), EndStream: isLast, EndHeaders: true}))
}

func (f *framer) data(stream uint32, p string, isLast bool) {
	f.t.Helper()
	f.must(f.WriteData(stream, isLast, []byte(p)))
}

// next returns the next frame that says something about requests, and acknowledges
// what has to be. It is nil at the end of the connection.
func (f *framer) next() http2.Frame {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				f.t.Fatal("nothing came in time")
			}
			return nil
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.must(f.WriteSettingsAck())
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data) // the connection may be at its end
			}
		case *http2.WindowUpdateFrame:
		default:
			return frame
		}
	}
}

// describe returns frames up to the end of a stream or connection, in short.
func (f *framer) describe() string {
	f.t.Helper()
	var all []string
	for {
		switch frame := f.next().(type) {
		case nil:
			return strings.Join(append(all, "end"), " ")
		case *http2.MetaHeadersFrame:
			text := frame.PseudoValue("status")
			if text == "" {
				for _, field := range frame.Fields {
					text += field.Name + "=" + field.Value
				}
			}
			all = append(all, text)
			if frame.StreamEnded() {
				return strings.Join(append(all, "."), " ")
			}
		case *http2.DataFrame:
			if data := string(frame.Data()); data != "" {
				all = append(all, data)
			}
			if frame.StreamEnded() {
				return strings.Join(append(all, "."), " ")
			}
		case *http2.RSTStreamFrame:
			return strings.Join(append(all, frame.ErrCode.String()), " ")
		case *http2.GoAwayFrame:
			all = append(all, "GOAWAY")
		}
	}
}

// readAll reads and closes a body.
func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	return string(body)
}

// closed returns when c is closed, which must be soon.
func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Errorf("%s: not in time", what)
	}
}
