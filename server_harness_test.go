package sluice_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/tcplisten"
)

// patience bounds what a test waits for. It is only reached when a test fails.
const patience = 20 * time.Second

// A network is a kind of connection that servers are tested over.
type network struct {
	name   string
	engine sluice.Engine // of servers that choose none
	secure *tls.Config   // of servers, which then use ServeTLS
	listen func(t *testing.T) (net.Listener, func() (net.Conn, error))
}

// overTCP is served by the engine that servers choose for it.
func overTCP() network {
	return network{name: "tcp", listen: func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		ln, err := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	}}
}

func inMemory() network {
	return network{name: "memory", listen: func(*testing.T) (net.Listener, func() (net.Conn, error)) {
		ln := fasthttputil.NewInmemoryListener()
		return ln, func() (net.Conn, error) { return ln.Dial() }
	}}
}

// by is n with servers that use one engine.
func (n network) by(e sluice.Engine) network {
	n.name += "/" + e.String()
	n.engine = e
	return n
}

// overTCPByEach is overTCP by each engine that this system has.
func overTCPByEach() []network {
	perConn := overTCP().by(sluice.EnginePerConn)
	if hasEpoll() {
		return []network{overTCP().by(sluice.EngineEpoll), perConn}
	}
	return []network{perConn}
}

// hasEpoll tells whether sockets are served by sluice.EngineEpoll here.
func hasEpoll() bool {
	s := &sluice.Server{}
	defer s.Shutdown()
	return s.EngineInfo(nil).Engine == sluice.EngineEpoll
}

// onEachNetwork runs a test over TCP, by each engine, and in memory.
func onEachNetwork(t *testing.T, test func(t *testing.T, n network)) {
	t.Helper()
	for _, n := range append(overTCPByEach(), inMemory()) {
		t.Run(n.name, func(t *testing.T) { test(t, n) })
	}
}

// A rig is a server that serves for one test.
type rig struct {
	t      *testing.T
	server *sluice.Server
	ln     net.Listener
	connect
	log    *logBook
	served chan error

	mu    sync.Mutex
	peers []net.Conn
}

type connect func() (net.Conn, error)

// serve has s serve on n until the test ends. Then all connections must be
// closed and counted out.
func serve(t *testing.T, n network, s *sluice.Server) *rig {
	t.Helper()
	served := make(chan error, 1)
	r := &rig{t: t, server: s, log: &logBook{}, served: served}
	if s.Logger == nil {
		s.Logger = r.log
	}
	if n.engine != sluice.EngineAuto && s.Engine == sluice.EngineAuto {
		s.Engine = n.engine
	}
	r.ln, r.connect = n.listen(t)
	if n.secure != nil {
		s.TLSConfig = n.secure
		go func() { served <- s.ServeTLS(r.ln, "", "") }()
	} else {
		go func() { served <- s.Serve(r.ln) }()
	}
	t.Cleanup(r.stop)
	return r
}

// stop ends the rig; it may be called again.
func (r *rig) stop() {
	r.t.Helper()
	r.mu.Lock()
	peers, served := r.peers, r.served
	r.peers, r.served = nil, nil
	r.mu.Unlock()
	if served == nil {
		return
	}
	for _, p := range peers {
		p.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.server.ShutdownWithContext(ctx); err != nil {
		r.t.Errorf("Shutdown: %v", err)
	}
	r.ln.Close()
	if err := receive(r.t, served); err != nil {
		r.t.Errorf("Serve returned %v", err)
	}
	// Hijackers are not waited for by Shutdown.
	eventually(r.t, "no connection is counted", func() bool {
		return r.server.GetOpenConnectionsCount() == 0 && r.server.GetCurrentConcurrency() == 0
	})
}

// dial opens a connection that is closed when the test ends.
func (r *rig) dial() *peer {
	r.t.Helper()
	c, err := r.connect()
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.peers = append(r.peers, c)
	r.mu.Unlock()
	return newPeer(r.t, c)
}

// connectAndGet is a GET on a connection of its own; it returns the status.
func (r *rig) connectAndGet() int {
	r.t.Helper()
	p := r.dial()
	defer p.Close()
	_, _ = io.WriteString(p.Conn, get("/")) // a refused connection may be closed already
	return p.answer("GET").StatusCode
}

// exchange sends script on a connection of its own and returns everything that
// comes back until the server closes that.
func (r *rig) exchange(script string) string {
	r.t.Helper()
	p := r.dial()
	defer p.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(p.Conn, script) // a server may close before it has read all
	}()
	raw := p.rest()
	p.Close()
	<-sent
	return withoutDates(raw)
}

// A peer is a client that knows nothing of HTTP.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func newPeer(t *testing.T, c net.Conn) *peer {
	_ = c.SetDeadline(time.Now().Add(patience))
	return &peer{Conn: c, t: t, r: bufio.NewReader(c)}
}

func (p *peer) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.Conn, s); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// rest returns what comes until the connection ends. A reset is an end, too:
// what matters is what was received before.
func (p *peer) rest() string {
	p.t.Helper()
	raw, err := io.ReadAll(p.r)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		p.t.Fatalf("the connection was not closed after %q", raw)
	}
	return string(raw)
}

// expect reads as much as want has and compares.
func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	if err != nil || string(got) != want {
		p.t.Fatalf("received %q (%v), want %q", got[:n], err, want)
	}
}

// expectEnd reads the orderly end of the connection.
func (p *peer) expectEnd() {
	p.t.Helper()
	if b, err := p.r.ReadByte(); err != io.EOF {
		p.t.Fatalf("received %q (%v), want the end of the connection", b, err)
	}
}

// An answer is one received response.
type answer struct {
	*http.Response
	body string
}

// answer reads the response to a request with the given method.
func (p *peer) answer(method string) answer {
	p.t.Helper()
	resp, err := http.ReadResponse(p.r, &http.Request{Method: method})
	if err != nil {
		p.t.Fatalf("reading the answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("reading the body: %v", err)
	}
	return answer{resp, string(body)}
}

// get is a GET round trip on the connection.
func (p *peer) get(path string) answer {
	p.t.Helper()
	p.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n")
	return p.answer("GET")
}

// request makes the text of a request; lines are fields.
func request(start string, lines ...string) string {
	head := start + "\r\nHost: h\r\n"
	for _, l := range lines {
		head += l + "\r\n"
	}
	return head + "\r\n"
}

// get is a GET request; closing asks for the end of the connection.
func get(path string) string     { return request("GET " + path + " HTTP/1.1") }
func closing(path string) string { return request("GET "+path+" HTTP/1.1", "Connection: close") }

// post is a POST request with a Content-Length.
func post(path, body string, lines ...string) string {
	lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	return request("POST "+path+" HTTP/1.1", lines...) + body
}

var dateLine = regexp.MustCompile(`\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n`)

// withoutDates removes the Date fields from answers.
func withoutDates(raw string) string { return dateLine.ReplaceAllString(raw, "\r\n") }

// textAnswer is an answer of the default kind, without its Date.
func textAnswer(status int, body string, lines ...string) string {
	s := fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n",
		status, sluice.StatusMessage(status), len(body))
	if body == "" {
		s = fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: sluice\r\nContent-Length: 0\r\n", status, sluice.StatusMessage(status))
	}
	for _, l := range lines {
		s += l + "\r\n"
	}
	return s + "\r\n" + body
}

// statusesOf returns the status codes of the answers in raw, which must have
// nothing else than final answers in it.
func statusesOf(t *testing.T, raw string, methods ...string) (statuses []int, bodies []string) {
	t.Helper()
	br := bufio.NewReader(strings.NewReader(raw))
	for i := 0; ; i++ {
		if _, err := br.Peek(1); err == io.EOF {
			return statuses, bodies
		}
		method := "GET"
		if i < len(methods) {
			method = methods[i]
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("answer %d of %q: %v", i, raw, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("body of answer %d of %q: %v", i, raw, err)
		}
		statuses, bodies = append(statuses, resp.StatusCode), append(bodies, string(body))
	}
}

// receive takes a value that must come soon.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing came in time")
	}
	return v
}

// eventually waits for a condition that other goroutines bring about and tell
// nobody about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// logBook is a Logger that keeps what it is told.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(&b.text, format+"\n", args...)
}

func (b *logBook) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
