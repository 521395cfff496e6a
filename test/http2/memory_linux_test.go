package http2_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestHTTP2IdleMemory: what an idle connection of HTTP/2 costs after one request. Later it
// serves another one, and says goodbye when the server shuts down. The server is a process
// of its own: this test, started again.
func TestHTTP2IdleMemory(t *testing.T) {
	if kind := os.Getenv("SLUICE_TEST_HTTP2_IDLE"); kind != "" {
		serveIdleHTTP2(t, kind)
		return
	}
	skipHTTP2Memory(t)
	t.Parallel() // it mostly waits
	for _, test := range []struct {
		kind         string
		conns, limit int // bytes for each connection
	}{
		{"h2c", 5000, 1 << 10},
		{"tls", 1000, 9 << 10},
		{"perconn", 1000, 8 << 10},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			newIdleHTTP2(t, test.kind).run(test.conns, test.limit)
		})
	}
}

func skipHTTP2Memory(t *testing.T) {
	if testing.Short() || invariants.Enabled {
		t.Skip("takes some seconds; the race detector keeps memory of its own")
	}
	if (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
		t.Skip("there is no event engine")
	}
}

// An idleHTTP2 is the server's process, seen from the test.
type idleHTTP2 struct {
	t    *testing.T
	kind string
	addr string
	in   io.Writer // a line is a command
	out  *bufio.Reader
}

func newIdleHTTP2(t *testing.T, kind string) *idleHTTP2 {
	server := exec.Command(os.Args[0], "-test.run=^TestHTTP2IdleMemory$")
	server.Env = append(os.Environ(), "SLUICE_TEST_HTTP2_IDLE="+kind)
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	s := &idleHTTP2{t: t, kind: kind, in: in, out: bufio.NewReader(out)}
	s.addr = s.line()
	return s
}

func (s *idleHTTP2) line() string {
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// memory returns the server's private memory after a garbage collection.
func (s *idleHTTP2) memory() int {
	fmt.Fprintln(s.in, "memory")
	n, err := strconv.Atoi(s.line())
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *idleHTTP2) run(count, limit int) {
	var conns []*idleClient
	for range 100 { // what the process needs once
		c := s.dial()
		c.ask()
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Close()
	}
	conns = conns[:0]
	before := s.memory()
	for range count {
		c := s.dial()
		defer c.Close()
		c.ask()
		conns = append(conns, c)
	}
	s.awaitMemory(before, count, limit)
	for _, c := range conns {
		c.ask()
	}
	s.awaitMemory(before, count, limit)
	fmt.Fprintln(s.in, "shutdown")
	for _, c := range conns {
		c.expectGoodbye()
	}
	if end := s.line(); end != "<nil>" {
		s.t.Error(end)
	}
}

// awaitMemory waits until count of what was opened cost at most limit bytes each.
func (s *idleHTTP2) awaitMemory(before, count, limit int) {
	s.t.Helper()
	s.awaitMemoryOf(before, count, func() int { return limit })
}

// awaitMemoryOf is awaitMemory with a limit that may change.
func (s *idleHTTP2) awaitMemoryOf(before, count int, most func() int) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		each, limit := (s.memory()-before)/count, most()
		if each <= limit {
			s.t.Logf("%s: each costs %d bytes", s.kind, each)
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: each costs %d bytes, at most %d are wanted", s.kind, each, limit)
		}
	}
}

// An idleClient is a connection of HTTP/2.
type idleClient struct {
	net.Conn
	t       *testing.T
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   strings.Builder
	stream  uint32
}

func (s *idleHTTP2) dial() *idleClient {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if strings.HasSuffix(s.kind, "tls") {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	c := &idleClient{Conn: conn, t: s.t, framer: http2.NewFramer(conn, conn), stream: 1}
	c.encoder = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		s.t.Fatal(err)
	}
	c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	return c
}

// ask makes a request, as curl does, and reads the response.
func (c *idleClient) ask() {
	c.begin(true, ":path", "/")
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			c.framer.WriteSettingsAck()
		}
		if d, ok := frame.(*http2.DataFrame); ok && d.StreamEnded() {
			_, isTLS := c.Conn.(*tls.Conn)
			if got, want := string(d.Data()), fmt.Sprint(c.stream/2, isTLS); got != want {
				c.t.Fatalf("number and TLS are %s, want %s", got, want)
			}
			return
		}
	}
}

// begin sends the head of a request with what curl sends, and more: names and values.
func (c *idleClient) begin(isLast bool, more ...string) {
	c.SetDeadline(time.Now().Add(20 * time.Second))
	c.block.Reset()
	fields := append([]string{":method", "GET", ":scheme", "http", ":authority", c.RemoteAddr().String()}, more...)
	fields = append(fields, "user-agent", "curl/7.88.1", "accept", "*/*")
	for i := 0; i < len(fields); i += 2 {
		c.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: []byte(c.block.String()), EndStream: isLast, EndHeaders: true})
	c.stream += 2
}

// expectGoodbye reads two GOAWAYs with a PING between them, and the end.
func (c *idleClient) expectGoodbye() {
	c.SetDeadline(time.Now().Add(20 * time.Second))
	var got []string
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			break
		}
		switch frame := frame.(type) {
		case *http2.PingFrame:
			c.framer.WritePing(true, frame.Data)
			got = append(got, "PING")
		case *http2.GoAwayFrame:
			got = append(got, fmt.Sprint("GOAWAY ", frame.LastStreamID))
		}
	}
	if got, want := strings.Join(got, ", "), fmt.Sprintf("GOAWAY %d, PING, GOAWAY %d", 1<<31-1, c.stream-2); got != want {
		c.t.Errorf("%s, want %s", got, want)
	}
}

// serveIdleHTTP2 is the server of TestHTTP2IdleMemory. It prints its address, and answers
// commands.
func serveIdleHTTP2(t *testing.T, kind string) {
	debug.SetGCPercent(50)
	h := newWaitingHandler()
	s := &sluice.Server{Handler: h.serve, HTTP2: sluice.HTTP2Config{StallTimeout: 2 * time.Minute}, ReadTimeout: 2 * time.Minute}
	switch kind {
	case "perconn", "perconn-tls":
		s.Engine = sluice.EnginePerConn
	case "streamed":
		s.StreamRequestBody = true
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if strings.HasSuffix(kind, "tls") {
			cert, key, _ := sluice.GenerateTestCertificate("localhost")
			_ = s.ServeTLSEmbed(ln, cert, key)
			return
		}
		_ = s.Serve(ln)
	}()
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "shutdown":
			fmt.Println(s.Shutdown())
			return
		case "streams":
			fmt.Println(s.EngineStats().HTTP2.Streams, h.running.Load())
			continue
		case "begun":
			fmt.Println(h.begun.Load())
			continue
		}
		fmt.Println(nettest.FreedMemory(t))
	}
}
