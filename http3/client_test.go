package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	quichttp "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// certificate is one of localhost for the servers of all tests.
var certificate = sync.OnceValues(func() (tls.Certificate, error) { return selfsigned.New("127.0.0.1") })

func serverTLS(t testing.TB, protocols ...string) *tls.Config {
	t.Helper()
	cert, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protocols}
}

// listenUDP returns a socket on loopback.
func listenUDP(t testing.TB) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startPeer serves h with quic-go's server, and returns its address.
func startPeer(t testing.TB, h http.HandlerFunc, config *quic.Config) (addr string, server *quichttp.Server) {
	t.Helper()
	socket := listenUDP(t)
	server = &quichttp.Server{Handler: h, TLSConfig: quichttp.ConfigureTLSConfig(serverTLS(t)), QUICConfig: config}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(socket)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return socket.LocalAddr().String(), server
}

// overHTTP3 returns a HostClient that speaks HTTP/3 with addr.
func overHTTP3(t testing.TB, addr string) *sluice.HostClient {
	t.Helper()
	c := &sluice.HostClient{
		Addr: addr, IsTLS: true, Transport: &Transport{Mode: Only},
		TLSConfig: &tls.Config{InsecureSkipVerify: true},
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// call sends a request with the method and the body, and returns the response.
func call(t testing.TB, c *sluice.HostClient, method, path string, body []byte) *sluice.Response {
	t.Helper()
	req, resp := sluice.AcquireRequest(), &sluice.Response{}
	defer sluice.ReleaseRequest(req)
	req.Header.SetMethod(method)
	req.SetRequestURI("https://" + c.Addr + path)
	req.SetBody(body)
	if err := c.DoTimeout(req, resp, 20*time.Second); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

// echoPeer is a handler with several answers.
func echoPeer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		_, _ = io.Copy(w, r.Body)
		for name, values := range r.Trailer {
			w.Header().Set(http.TrailerPrefix+name, "got "+values[0])
		}
	case "/size":
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		_, _ = w.Write(bytes.Repeat([]byte("x"), n))
	case "/early":
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "late")
	case "/trailer":
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "4")
	case "/status":
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		w.WriteHeader(n)
	case "/ignore": // the body of the request
		w.WriteHeader(http.StatusTeapot)
	case "/wait":
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Proto)
	}
}

// TestClientRequests: methods, bodies of all sizes, and what a response may have.
func TestClientRequests(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	resp := call(t, c, "GET", "/a?b", nil)
	if resp.StatusCode() != 200 || string(resp.Body()) != "GET /a HTTP/3.0" || string(resp.Header.ContentType()) != "text/plain" {
		t.Errorf("%d %q", resp.StatusCode(), resp.Body())
	}
	for _, n := range []int{1, 100, withHead, 5000, 100_000, 3 << 20} {
		body := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
		resp := call(t, c, "POST", "/echo", body)
		if !bytes.Equal(resp.Body(), body) || string(resp.Header.Peek("X-Length")) != strconv.Itoa(n) {
			t.Errorf("%d bytes: %d came back, %s announced", n, len(resp.Body()), resp.Header.Peek("X-Length"))
		}
	}
	for _, n := range []int{0, 1, 16 << 10, 5 << 20} {
		if resp := call(t, c, "GET", "/size?n="+strconv.Itoa(n), nil); len(resp.Body()) != n {
			t.Errorf("%d bytes of %d", len(resp.Body()), n)
		}
	}
	if resp := call(t, c, "HEAD", "/size?n=10", nil); len(resp.Body()) != 0 || resp.StatusCode() != 200 {
		t.Errorf("HEAD: %d, %q", resp.StatusCode(), resp.Body())
	}
	for _, status := range []int{204, 304, 404} {
		if resp := call(t, c, "GET", "/status?n="+strconv.Itoa(status), nil); resp.StatusCode() != status || len(resp.Body()) != 0 {
			t.Errorf("status %d is %d", status, resp.StatusCode())
		}
	}
	if resp := call(t, c, "GET", "/trailer", nil); string(resp.Header.Peek("X-Sum")) != "4" || string(resp.Body()) != "body" {
		t.Errorf("trailer: %q, %q", resp.Header.Peek("X-Sum"), resp.Body())
	}
	if n := c.ConnsCount(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestClientTrailers: trailer fields of a request, after a body in memory and after a stream.
func TestClientTrailers(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	for _, isStream := range []bool{false, true} {
		var req sluice.Request
		var resp sluice.Response
		req.Header.SetMethod("POST")
		req.SetRequestURI("https://" + addr + "/echo")
		if isStream {
			req.SetBodyStream(strings.NewReader("stream"), -1)
		} else {
			req.SetBodyString("memory")
		}
		if err := req.Header.AddTrailer("X-End"); err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-End", "yes")
		if err := c.Do(&req, &resp); err != nil || string(resp.Header.Peek("X-End")) != "got yes" {
			t.Errorf("stream %v: %v, %q, %q", isStream, err, resp.Body(), resp.Header.Peek("X-End"))
		}
	}
}

// TestClientInterim: interim responses are passed on.
func TestClientInterim(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	var req sluice.Request
	var resp sluice.Response
	var got []string
	resp.OnInterim = func(h *sluice.ResponseHeader) {
		got = append(got, fmt.Sprint(h.StatusCode(), " ", string(h.Peek("Link"))))
	}
	req.SetRequestURI("https://" + addr + "/early")
	if err := c.Do(&req, &resp); err != nil || string(resp.Body()) != "late" {
		t.Fatal(err, string(resp.Body()))
	}
	if len(got) != 1 || got[0] != "103 </a.css>; rel=preload" {
		t.Error(got)
	}
}

// TestClientStreams: bodies that are read as they arrive, and closed before their end.
func TestClientStreams(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	c.StreamResponseBody = true
	for _, n := range []int{0, 5, 300_000} {
		resp := call(t, c, "GET", "/size?n="+strconv.Itoa(n), nil)
		body, err := io.ReadAll(resp.BodyStream())
		if err != nil || len(body) != n {
			t.Errorf("%d bytes of %d, %v", len(body), n, err)
		}
		if err := resp.CloseBodyStream(); err != nil {
			t.Error(err)
		}
	}
	resp := call(t, c, "GET", "/size?n=30000000", nil)
	if _, err := io.ReadFull(resp.BodyStream(), make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := resp.CloseBodyStream(); err != nil {
		t.Error(err)
	}
	if c.IdleConnsCount() != 1 || c.ConnsCount() != 1 {
		t.Errorf("%d of %d connections are idle", c.IdleConnsCount(), c.ConnsCount())
	}
}

// TestClientBodyLimit: MaxResponseBodySize bounds responses, with and without Content-Length.
func TestClientBodyLimit(t *testing.T) {
	addr, _ := startPeer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunks" {
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(make([]byte, 2000))
	}, nil)
	c := overHTTP3(t, addr)
	c.MaxResponseBodySize = 1999
	for _, path := range []string{"/", "/chunks"} {
		var req sluice.Request
		req.SetRequestURI("https://" + addr + path)
		if err := c.Do(&req, &sluice.Response{}); !errors.Is(err, sluice.ErrBodyTooLarge) {
			t.Errorf("%s: %v", path, err)
		}
	}
	c.MaxResponseBodySize = 2000
	if resp := call(t, c, "GET", "/chunks", nil); len(resp.Body()) != 2000 {
		t.Error(len(resp.Body()))
	}
}

// TestClientEarlyAnswer: an answer that comes before the end of the request ends the request.
func TestClientEarlyAnswer(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	if resp := call(t, c, "POST", "/ignore", make([]byte, 20<<20)); resp.StatusCode() != http.StatusTeapot {
		t.Error(resp.StatusCode())
	}
	r, w := io.Pipe() // which never has a byte
	defer w.Close()
	var req sluice.Request
	var resp sluice.Response
	req.Header.SetMethod("POST")
	req.SetRequestURI("https://" + addr + "/ignore")
	req.SetBodyStream(r, -1)
	if err := c.DoTimeout(&req, &resp, 20*time.Second); err != nil || resp.StatusCode() != http.StatusTeapot {
		t.Error(err, resp.StatusCode())
	}
}

// TestClientEnds: time-outs and contexts end a request, and only that.
func TestClientEnds(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	call(t, c, "GET", "/", nil)
	var req sluice.Request
	req.SetRequestURI("https://" + addr + "/wait")
	if err := c.DoTimeout(&req, &sluice.Response{}, 20*time.Millisecond); err != sluice.ErrTimeout {
		t.Errorf("DoTimeout: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(20*time.Millisecond, func() { cancel(os.ErrProcessDone) })
	var phase *sluice.PhaseError
	err := c.DoContext(ctx, &req, &sluice.Response{})
	if !errors.As(err, &phase) || phase.Phase != sluice.PhaseRead || !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("DoContext: %v", err)
	}
	c.ReadTimeout = 20 * time.Millisecond
	c.MaxIdemponentCallAttempts = 1
	if err := c.Do(&req, &sluice.Response{}); err != sluice.ErrTimeout {
		t.Errorf("ReadTimeout: %v", err)
	}
	c.ReadTimeout = 0
	if resp := call(t, c, "GET", "/", nil); resp.StatusCode() != 200 || c.ConnsCount() != 1 {
		t.Errorf("%d, %d connections", resp.StatusCode(), c.ConnsCount())
	}
}

// TestClientExpect: the body waits for the status 100, and is not sent after a final one.
func TestClientExpect(t *testing.T) {
	addr := serve(t, &sluice.Server{
		Handler:         func(ctx *sluice.RequestCtx) { ctx.SetBody(ctx.PostBody()) },
		ContinueHandler: func(h *sluice.RequestHeader) bool { return string(h.RequestURI()) == "/yes" },
	}, Config{})
	c := overHTTP3(t, addr)
	c.ExpectContinueTimeout = time.Hour
	var waits, continued atomic.Int32
	c.Trace = &sluice.ClientTrace{Wait100Continue: func() { waits.Add(1) }, Got100Continue: func() { continued.Add(1) }}
	for path, want := range map[string]int{"/yes": 200, "/no": 417} {
		for _, isStream := range []bool{false, true} {
			var req sluice.Request
			var resp sluice.Response
			req.Header.SetMethod("POST")
			req.SetRequestURI("https://" + addr + path)
			req.Header.Set("Expect", "100-continue")
			if isStream {
				req.SetBodyStream(strings.NewReader("content"), -1)
			} else {
				req.SetBodyString("content")
			}
			if err := c.DoTimeout(&req, &resp, 20*time.Second); err != nil || resp.StatusCode() != want {
				t.Errorf("%s: %v, %d", path, err, resp.StatusCode())
			}
			if waited, got := waits.Swap(0), continued.Swap(0); want == 200 && waited != 1 || got != map[int]int32{200: 1}[want] {
				t.Errorf("%s: told %d times of the wait, %d times of the status 100", path, waited, got)
			}
			if want == 200 && string(resp.Body()) != "content" {
				t.Errorf("%s: %q", path, resp.Body())
			}
		}
	}
}

// TestClientConcurrency: requests share a connection up to the limit of the server, then others.
func TestClientConcurrency(t *testing.T) {
	const limit = 10
	var inside atomic.Int32
	full := make(chan struct{})
	addr, _ := startPeer(t, func(w http.ResponseWriter, r *http.Request) {
		if inside.Add(1) == 2*limit {
			close(full)
		}
		<-full
		_, _ = io.Copy(w, r.Body)
	}, &quic.Config{MaxIncomingStreams: limit})
	c := overHTTP3(t, addr)
	c.MaxConnWaitTimeout = 20 * time.Second
	var group sync.WaitGroup
	for i := range 2 * limit {
		group.Go(func() {
			body := bytes.Repeat([]byte{byte('a' + i)}, 10_000)
			if resp := call(t, c, "POST", "/", body); !bytes.Equal(resp.Body(), body) {
				t.Error("a wrong body came back")
			}
		})
	}
	group.Wait()
	if n := c.ConnsCount(); n != 2 {
		t.Errorf("%d connections for %d streams", n, 2*limit)
	}
	for range 50 {
		for range 20 {
			group.Go(func() { call(t, c, "GET", "/", nil) })
		}
	}
	group.Wait()
}

// serveInTurn accepts connections at the address that it returns, and gives each to the server
// that is in next.
func serveInTurn(t *testing.T, next chan *quichttp.Server) (addr string) {
	socket := listenUDP(t)
	transport := &quic.Transport{Conn: socket}
	ln, err := transport.ListenEarly(quichttp.ConfigureTLSConfig(serverTLS(t)), &quic.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		last := <-next
		_ = last.Close()
		_ = ln.Close()
		_ = transport.Close()
	})
	go func() {
		for {
			q, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			s := <-next
			next <- s
			go func() { _ = s.ServeQUICConn(q) }()
		}
	}()
	return socket.LocalAddr().String()
}

// TestClientShutdown: a server that goes away loses and doubles no request.
func TestClientShutdown(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	const servers, perServer = 5, 40
	next := make(chan *quichttp.Server, 1)
	newServer := func() *quichttp.Server { return &quichttp.Server{Handler: http.HandlerFunc(handler)} }
	next <- newServer()
	c := overHTTP3(t, serveInTurn(t, next))
	var group sync.WaitGroup
	stop := make(chan struct{})
	var sent atomic.Int32
	for worker := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				sent.Add(1)
				call(t, c, "POST", fmt.Sprintf("/%d/%d", worker, i), nil)
			}
		})
	}
	for i := range servers {
		nettest.Poll(20*time.Second, func() bool { return int(sent.Load()) > (i+1)*perServer })
		old := <-next
		next <- newServer()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := old.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	close(stop)
	group.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != int(sent.Load()) {
		t.Errorf("%d of %d requests were seen", len(seen), sent.Load())
	}
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen %d times", path, n)
		}
	}
}

// TestClientKilled: when the server is gone, requests end, and later ones find its successor.
func TestClientKilled(t *testing.T) {
	addr, server := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	call(t, c, "GET", "/", nil)
	failed := make(chan error, 1)
	go func() {
		var req sluice.Request
		req.Header.SetMethod("POST")
		req.SetRequestURI("https://" + addr + "/wait")
		failed <- c.Do(&req, &sluice.Response{})
	}()
	nettest.Poll(10*time.Second, func() bool { return c.PendingRequests() == 1 })
	time.Sleep(20 * time.Millisecond) // until it is sent, most likely
	_ = server.Close()
	err := <-failed
	if !errors.Is(err, sluice.ErrConnectionClosed) {
		t.Errorf("a request of a server that is killed: %v", err)
	}
	var own *Error
	if !errors.As(err, &own) {
		t.Errorf("%v has no Error", err)
	}
	if !nettest.Poll(10*time.Second, func() bool { return c.ConnsCount() == 0 }) {
		t.Errorf("%d connections are left", c.ConnsCount())
	}
}

// TestClientGoroutines: closed connections leave no goroutine.
func TestClientGoroutines(t *testing.T) {
	addr, _ := startPeer(t, echoPeer, nil)
	c := overHTTP3(t, addr)
	count := func() (n int) {
		buffer := make([]byte, 1<<20)
		stacks := string(buffer[:runtimeStack(buffer)])
		for stack := range strings.SplitSeq(stacks, "\n\n") {
			if strings.Contains(stack, "http3.(*client") || strings.Contains(stack, "http3.(*uni") || strings.Contains(stack, "http3.(*peers)") {
				n++
			}
		}
		return n
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { call(t, c, "POST", "/echo", make([]byte, 50_000)) })
	}
	group.Wait()
	if count() == 0 {
		t.Fatal("an open connection has no goroutine: the test finds none")
	}
	c.CloseIdleConnections()
	if !nettest.Poll(10*time.Second, func() bool { return count() == 0 }) {
		t.Errorf("%d goroutines are left", count())
	}
}

// TestClientAllocations: a GET allocates in quic-go, on both sides, and nowhere else.
func TestClientAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	socket := listenUDP(t)
	addr := socket.LocalAddr().String()
	serveRaw(t, socket, func(s *quic.Stream) {
		var room [512]byte
		for err := error(nil); err == nil; {
			_, err = s.Read(room[:])
		}
		_, _ = s.Write(smallResponse)
		_ = s.Close()
	})
	c := overHTTP3(t, addr)
	var req sluice.Request
	var resp sluice.Response
	req.SetRequestURI("https://" + addr + "/")
	do := func() {
		if err := c.Do(&req, &resp); err != nil || string(resp.Body()) != "hello" {
			t.Fatal(err, string(resp.Body()))
		}
	}
	do()
	all := testing.AllocsPerRun(2000, do)
	t.Logf("%.1f allocations for a GET, of client and raw server together", all)
	if all > 72 { // 68; 2 are the test's, the others quic-go's
		t.Errorf("%.1f allocations", all)
	}
}
