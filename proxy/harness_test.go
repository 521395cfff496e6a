package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

const longEnough = 20 * time.Second

// silent is a Logger.
var silent = log.New(io.Discard, "", 0)

// engines are those that a proxy's server may have.
var engines = []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn}

// serveUntilEnd serves until the test ends, and returns the address.
func serveUntilEnd(t testing.TB, serve func(net.Listener) error, stop func() error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	t.Cleanup(func() {
		_ = stop()
		ln.Close()
		<-served
	})
	return ln.Addr().String()
}

// upstreamOf serves handler with net/http: another implementation, which does not compensate
// for our mistakes.
func upstreamOf(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := &http.Server{Handler: handler, ErrorLog: silent, Protocols: new(http.Protocols), DisableGeneralOptionsHandler: true}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return "http://" + serveUntilEnd(t, s.Serve, s.Close)
}

// newProxy returns a Proxy that is closed when the test ends.
func newProxy(t testing.TB, o Options) *Proxy {
	t.Helper()
	if o.Logger == nil {
		o.Logger = silent
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// front serves p until the test ends, and returns the address.
func front(t testing.TB, p *Proxy, engine sluice.Engine) string {
	t.Helper()
	s := &sluice.Server{
		Handler: p.Handle, StreamRequestBody: true, Engine: engine, Logger: silent,
		NoDefaultServerHeader: true, NoDefaultDate: true,
	}
	return serveUntilEnd(t, s.Serve, s.Shutdown)
}

// dialFront connects to an address.
func dialFront(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(longEnough))
	return conn.(*net.TCPConn)
}

// onEachEngine runs test with a proxy in front of a handler of net/http, on both engines.
func onEachEngine(t *testing.T, o Options, handler http.HandlerFunc, test func(t *testing.T, p *Proxy, conn *net.TCPConn)) {
	onEach(t, o, "http", handler, test)
}

// onEachProtocol is onEachEngine with HTTP/1.1 and HTTP/2 to the upstream.
func onEachProtocol(t *testing.T, o Options, handler http.HandlerFunc, test func(t *testing.T, p *Proxy, conn *net.TCPConn)) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) { onEach(t, o, scheme, handler, test) })
	}
}

func onEach(t *testing.T, o Options, scheme string, handler http.HandlerFunc, test func(t *testing.T, p *Proxy, conn *net.TCPConn)) {
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			o.To = []string{strings.Replace(upstreamOf(t, handler), "http", scheme, 1)}
			p := newProxy(t, o)
			test(t, p, dialFront(t, front(t, p, engine)))
		})
	}
}

func send(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func answerTo(t testing.TB, r *bufio.Reader, status int) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("answer %s, want %d: %s", resp.Status, status, body)
	}
	return resp
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func wait[T any](t testing.TB, c <-chan T, failure string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(longEnough):
		t.Fatal(failure)
	}
	return v
}

// A rawUpstream keeps every byte that it gets, and answers each request with what answer
// returns for it. It understands only what is well-formed beyond doubt.
type rawUpstream struct {
	answer func(request string) string // "": nothing, and the connection is closed
	closes bool                        // it closes the connection after each answer
	mu     sync.Mutex
	got    strings.Builder
	count  int // requests
	closed int // connections
}

// start returns the URL.
func (u *rawUpstream) start(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Add(1)
			go func() {
				defer wg.Done()
				u.serve(conn)
				conn.Close()
				u.mu.Lock()
				defer u.mu.Unlock()
				u.closed++
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}

// taken returns what has come since the last call.
func (u *rawUpstream) taken() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := u.got.String()
	u.got.Reset()
	return text
}

// requests returns how many requests have come.
func (u *rawUpstream) requests() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

// awaitClosed waits until n connections were closed.
func (u *rawUpstream) awaitClosed(t testing.TB, n int) {
	t.Helper()
	closed := func() int {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.closed
	}
	if !nettest.Poll(longEnough, func() bool { return closed() >= n }) {
		t.Fatalf("%d of %d connections are closed", closed(), n)
	}
}

func (u *rawUpstream) serve(conn net.Conn) {
	r := bufio.NewReader(io.TeeReader(conn, writerFunc(func(p []byte) (int, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.got.Write(p)
	})))
	for {
		request, err := readStrictly(r)
		if err != nil {
			if err != io.EOF {
				fmt.Fprintf(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nX-Reason: %v\r\n\r\n", err)
			}
			return
		}
		u.mu.Lock()
		u.count++
		u.mu.Unlock()
		text := u.answer(request)
		if text == "" {
			return
		}
		if _, err := io.WriteString(conn, text); err != nil || u.closes {
			return
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readStrictly reads one request.
func readStrictly(r *bufio.Reader) (string, error) {
	var all bytes.Buffer
	line := func() (string, error) {
		text, err := r.ReadString('\n')
		all.WriteString(text)
		if err == nil && !strings.HasSuffix(text, "\r\n") {
			err = fmt.Errorf("the line %q has no CR", text)
		}
		return strings.TrimSuffix(text, "\r\n"), err
	}
	length, isChunked := 0, false
	for first := true; ; first = false {
		text, err := line()
		switch {
		case err != nil:
			return "", err
		case text == "" && first:
			return "", fmt.Errorf("there is an empty line before the request")
		case text == "":
		case first:
			continue
		}
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ": ")
		if !ok || strings.ContainsAny(name, " \t") {
			return "", fmt.Errorf("%q is no field", text)
		}
		switch strings.ToLower(name) {
		case "content-length":
			if length, err = strconv.Atoi(value); err != nil {
				return "", err
			}
		case "transfer-encoding":
			isChunked = value == "chunked"
		}
	}
	if !isChunked {
		_, err := io.CopyN(&all, r, int64(length))
		return all.String(), err
	}
	for {
		text, err := line()
		if err != nil {
			return "", err
		}
		size, err := strconv.ParseUint(text, 16, 32)
		if err != nil {
			return "", err
		}
		if size == 0 {
			break
		}
		if _, err := io.CopyN(&all, r, int64(size)); err != nil {
			return "", err
		}
		if text, err := line(); err != nil || text != "" {
			return "", fmt.Errorf("a chunk ends with %q", text)
		}
	}
	for {
		if text, err := line(); err != nil || text == "" {
			return all.String(), err
		}
	}
}

// answerAndClose returns an upstream that answers the first request of each connection, and
// closes it.
func answerAndClose(text string) *rawUpstream {
	return &rawUpstream{answer: func(string) string { return text }, closes: true}
}

// soon is when a client that gets nothing more gives up.
func soon() time.Time { return time.Now().Add(300 * time.Millisecond) }

// insecure trusts every certificate.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// dialTLS connects to an address with TLS.
func dialTLS(t testing.TB, addr string) *tls.Conn {
	t.Helper()
	conn := tls.Client(dialFront(t, addr), insecure())
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return conn
}
