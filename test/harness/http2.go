package harness

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// OnEachHTTP2Network runs a test over TCP by each engine, in memory, and over TLS.
func OnEachHTTP2Network(t *testing.T, test func(t *testing.T, n Network)) {
	t.Helper()
	networks := append(OverTCPByEach(), InMemory())
	for _, n := range UnderTLS() {
		networks = append(networks, OverTLS(t, n, "h2"))
	}
	for _, n := range networks {
		t.Run(n.Name, func(t *testing.T) { test(t, n) })
	}
}

// ServeHTTP2 serves with HTTP/2 switched on.
func ServeHTTP2(t *testing.T, n Network, s *sluice.Server) *Rig {
	t.Helper()
	return Serve(t, n, s)
}

// A Framer is a client of HTTP/2 that sends and receives single frames.
type Framer struct {
	*http2.Framer
	t       *testing.T
	Conn    net.Conn
	encoder *hpack.Encoder
	block   bytes.Buffer
	table   *hpack.Decoder
}

func (f *Framer) Must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// Head sends the head of a request: pairs of names and values after the pseudo-fields.
func (f *Framer) Head(stream uint32, method, path string, isLast bool, pairs ...string) {
	f.t.Helper()
	f.Send(stream, isLast, append([]string{":method", method, ":scheme", "http", ":authority", "h", ":path", path}, pairs...))
}

// Send sends a head: pairs of names and values.
func (f *Framer) Send(stream uint32, isLast bool, pairs []string) {
	f.t.Helper()
	f.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		f.Must(f.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	f.Must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block.Bytes(), EndStream: isLast, EndHeaders: true}))
}

func (f *Framer) Data(stream uint32, p string, isLast bool) {
	f.t.Helper()
	f.Must(f.WriteData(stream, isLast, []byte(p)))
}

// Next returns the next frame that says something about requests, and acknowledges
// what has to be. It is nil at the end of the connection.
func (f *Framer) Next() http2.Frame {
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
				f.Must(f.WriteSettingsAck())
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

// Describe returns frames up to the end of a stream or connection, in short.
func (f *Framer) Describe() string {
	f.t.Helper()
	var all []string
	for {
		switch frame := f.Next().(type) {
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

// Connect asks for a tunnel.
func (f *Framer) Connect(stream uint32, protocol string, pairs ...string) {
	f.t.Helper()
	f.Send(stream, false, append([]string{":method", "CONNECT", ":protocol", protocol, ":scheme", "http", ":authority", "h", ":path", "/chat?a=b"}, pairs...))
}

// Fields returns the fields of the head that comes next, without those of every response.
func (f *Framer) Fields() string {
	f.t.Helper()
	head, ok := f.Next().(*http2.MetaHeadersFrame)
	if !ok {
		f.t.Fatal("there is no head")
	}
	var all []string
	for _, field := range head.Fields {
		if field.Name != "server" && field.Name != "date" {
			all = append(all, field.Name+"="+field.Value)
		}
	}
	if head.StreamEnded() {
		all = append(all, ".")
	}
	return strings.Join(all, " ")
}

// Accepts opens a tunnel on the stream.
func (f *Framer) Accepts(stream uint32) {
	f.t.Helper()
	f.Connect(stream, "websocket")
	if got := f.Fields(); !strings.HasPrefix(got, ":status=200") || strings.HasSuffix(got, ".") {
		f.t.Fatalf("the tunnel is not open: %q", got)
	}
}

// Expect reads DATA until want has come.
func (f *Framer) Expect(want string) {
	f.t.Helper()
	got := ""
	for len(got) < len(want) {
		data, ok := f.Next().(*http2.DataFrame)
		if !ok {
			f.t.Fatalf("got %q, and then no DATA", got)
		}
		got += string(data.Data())
	}
	if got != want {
		f.t.Fatalf("got %q, want %q", got, want)
	}
}

// ExpectTalk talks to a talk, which has the stream.
func (f *Framer) ExpectTalk(stream uint32, first string) {
	f.t.Helper()
	if head, ok := f.Next().(*http2.MetaHeadersFrame); !ok || head.PseudoValue("status") != "200" || head.StreamEnded() {
		f.t.Fatal("the tunnel is not open")
	}
	f.Expect(first)
	for n := range 3 {
		f.Data(stream, "x", false)
		f.Expect(fmt.Sprint(41+n, " x"))
	}
	f.Data(stream, "", true)
	if got := f.Describe(); got != "bye ." {
		f.t.Errorf("the tunnel ends with %q", got)
	}
}
