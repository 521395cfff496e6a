package sluice

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// echoTunnel accepts streams of "echo", with what it has seen of the request, and refuses
// others.
var echoTunnel = http2Handler{
	sluice: func(ctx *RequestCtx) {
		if protocol := ctx.Request.Header.ConnectProtocol(); string(protocol) != "echo" {
			ctx.Error("not "+string(protocol), StatusForbidden)
			return
		}
		ctx.Response.Header.Set("X-Seen", fmt.Sprintf("%s %s %s %s", ctx.Method(), ctx.RequestURI(), ctx.Host(), ctx.Request.Header.Peek("X-Sent")))
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, c) })
	},
	nethttp: func(http.ResponseWriter, *http.Request) {},
}

// connectTo asks a server for a stream.
func connectTo(ctx context.Context, c *Client, url, protocol string) (net.Conn, *Response, error) {
	req, resp := newCall("POST", url)
	req.Header.Set("X-Sent", "value")
	req.Header.Set("Connection", "Upgrade")
	req.SetBodyString("unsent")
	conn, err := c.ConnectProtocol(ctx, protocol, req, resp)
	return conn, resp, err
}

// TestConnectProtocol: with which servers and modes it works.
func TestConnectProtocol(t *testing.T) {
	for _, kind := range http2Servers {
		for mode, name := range []string{HTTP2Off: "off", HTTP2Auto: "auto", HTTP2Only: "only"} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				noNewGoroutines(t)
				r := kind.start(t, echoTunnel)
				c := &Client{HTTP2: HTTP2Mode(mode), TLSConfig: r.client, MaxHTTP2Conns: 1}
				var want error
				switch {
				case HTTP2Mode(mode) == HTTP2Only && !kind.isHTTP2:
					want = ErrNoHTTP2
				case HTTP2Mode(mode) == HTTP2Off, HTTP2Mode(mode) == HTTP2Auto && !kind.isTLS, !kind.isHTTP2, kind.name[:6] != "sluice":
					want = ErrNoConnectProtocol
				}
				for range 2 {
					conn, resp, err := connectTo(t.Context(), c, r.url("/a?b"), "echo")
					if !errors.Is(err, want) {
						t.Fatalf("error %v, want %v", err, want)
					}
					if want == ErrNoConnectProtocol { // other requests are
						if err := c.Do(newCall("GET", r.url("/"))); err != nil {
							t.Error(err)
						}
					}
					if want == nil {
						if seen := "CONNECT /a?b " + r.addr + " value"; string(resp.Header.Peek("X-Seen")) != seen {
							t.Errorf("the server has seen %q, want %q", resp.Header.Peek("X-Seen"), seen)
						}
						checkEcho(t, conn, 100_000)
						checkPool(t, c.hostClients()[0], 1, 0)
						if err := conn.Close(); err != nil || conn.Close() == nil {
							t.Error(err)
						}
					}
				}
				c.CloseIdleConnections()
				eventually(t, "no connection is open", func() bool { return c.ConnsCount() == 0 })
			})
		}
	}
}

// checkEcho sends n bytes, and ends.
func checkEcho(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	sent := bytes.Repeat([]byte("0123456789"), n/10)
	go func() {
		_, err := conn.Write(sent)
		if err := errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite()); err != nil {
			t.Error(err)
		}
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back: %v", len(got), n, err)
	}
}

// A hundred streams and requests share one connection. A place is free after Close.
func TestConnectProtocolShares(t *testing.T) {
	kind := http2Servers[0]
	r := kind.start(t, echoTunnel)
	c := &Client{HTTP2: HTTP2Auto, TLSConfig: r.client, MaxHTTP2Conns: 1, MaxConnWaitTimeout: time.Minute}
	defer c.CloseIdleConnections()
	var all sync.WaitGroup
	for range 300 { // the server admits 250
		all.Go(func() {
			conn, _, err := connectTo(t.Context(), c, r.url("/"), "echo")
			if err != nil {
				t.Error(err)
				return
			}
			checkEcho(t, conn, 5000)
			_ = conn.Close()
			req, resp := newCall("GET", r.url("/"))
			if err := c.Do(req, resp); err != nil || resp.StatusCode() != StatusForbidden {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkPool(t, c.hostClients()[0], 1, 1)
}

// A refusal has its body, and gives its place back.
func TestConnectProtocolRefused(t *testing.T) {
	r := http2Servers[2].start(t, echoTunnel)
	c := &Client{HTTP2: HTTP2Only}
	conn, resp, err := connectTo(t.Context(), c, r.url("/"), "other")
	if err != nil || conn != nil || resp.StatusCode() != StatusForbidden {
		t.Fatal(conn, err)
	}
	if body, err := io.ReadAll(resp.BodyStream()); string(body) != "not other" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	_ = resp.CloseBodyStream()
	c.CloseIdleConnections()
	checkPool(t, c.hostClients()[0], 0, 0)
}

// A hole passes connections on, until it swallows what they send.
type hole struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	open   []*holeConn
}

// A holeConn is a connection and the one that continues it.
type holeConn struct {
	client, server net.Conn
	reads          atomic.Int64 // from the client
	isDark         atomic.Bool
}

func newHole(t testing.TB, target string) *hole {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{ln: ln, target: target}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", h.target)
			if err != nil {
				t.Error(err)
				return
			}
			pair := &holeConn{client: c, server: s}
			h.mu.Lock()
			h.open = append(h.open, pair)
			h.mu.Unlock()
			all.Go(func() { pair.pass(s, c) })
			all.Go(func() { pair.pass(c, s) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		h.mu.Lock()
		for _, c := range h.open {
			c.client.Close()
			c.server.Close()
		}
		h.mu.Unlock()
		all.Wait()
	})
	return h
}

// pass passes on what comes from src, and its end.
func (c *holeConn) pass(dst, src net.Conn) {
	in := make([]byte, 32<<10)
	for {
		n, err := src.Read(in)
		if src == c.client {
			c.reads.Add(1)
		}
		if c.isDark.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, failed := dst.Write(in[:n]); err != nil || failed != nil {
			dst.Close()
			return
		}
	}
}

// swallow makes the open connections say nothing any more, but for those whose handshake
// has not ended.
func (h *hole) swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.open {
		if c.reads.Load() > 2 {
			c.isDark.Store(true)
		}
	}
}

// swallowAll swallows after every 60 of total requests, while some are running. It returns
// how often.
func (h *hole) swallowAll(total, running *atomic.Int64) (times int64) {
	for next := total.Load() + 60; running.Load() > 0; time.Sleep(time.Millisecond) {
		if total.Load() >= next {
			h.swallow()
			times++
			next = total.Load() + 60
		}
	}
	return times
}

// Connections fall silent while requests are under way. The client leaves them: each GET
// is answered, no POST is processed twice, and none waits for ever.
func TestClientHTTP2Blackholes(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			var served sync.Map
			var total atomic.Int64
			count := func(path string) {
				total.Add(1)
				n, _ := served.LoadOrStore(path, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
			onEachHTTP2Server(t, http2Handler{
				sluice: func(ctx *RequestCtx) {
					count(string(ctx.Path()))
					_, _ = ctx.Write(ctx.Path())
				},
				nethttp: func(w http.ResponseWriter, r *http.Request) {
					count(r.URL.Path)
					_, _ = io.WriteString(w, r.URL.Path)
				},
			}, func(t *testing.T, r *http2Rig) {
				hole := newHole(t, r.addr)
				c := r.host(HTTP2Only)
				c.Addr, c.Dial, c.MaxIdemponentCallAttempts = hole.ln.Addr().String(), nil, 100
				if r.client != nil {
					c.TLSConfig = r.client.Clone()
				}
				health := c.prepared().http2
				health.PingAfter, health.PingTimeout = 20*time.Millisecond, 200*time.Millisecond
				defer c.CloseIdleConnections()
				var running, lost atomic.Int64
				var all sync.WaitGroup
				for worker := range 4 {
					running.Add(1)
					all.Go(func() {
						defer running.Add(-1)
						for i := range 100 {
							path := fmt.Sprintf("/%s/%d/%d", r.addr, worker, i) // a server may be late
							req, resp := newCall(method, r.url(path))
							err := c.Do(req, resp)
							n, _ := served.Load(path)
							switch {
							case err == nil && (n == nil || string(resp.Body()) != path):
								t.Errorf("%s: answered %q, processed: %v", path, resp.Body(), n != nil)
							case method == "POST" && n != nil && n.(*atomic.Int64).Load() > 1:
								t.Errorf("%s: processed twice", path)
							case method == "GET" && err != nil:
								t.Errorf("%s: %v", path, err)
							case err != nil:
								lost.Add(1)
							}
						}
					})
				}
				holes := hole.swallowAll(&total, &running)
				within(t, "the load", all.Wait)
				// Each of four callers may have been waiting when a connection fell silent.
				if n := lost.Load(); n > 4*holes {
					t.Errorf("%d requests failed, %d connections fell silent", n, holes)
				}
			})
		})
	}
}

// blockingHandler answers when release is closed, and reports requests that were given
// up. Those for /now are answered at once.
func blockingHandler(release <-chan struct{}, arrived, gone *atomic.Int64) http2Handler {
	return http2Handler{
		sluice: func(ctx *RequestCtx) {
			if string(ctx.Path()) == "/now" {
				return
			}
			arrived.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
				gone.Add(1)
			}
		},
		nethttp: func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/now" {
				return
			}
			arrived.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
				gone.Add(1)
			}
		},
	}
}

// TestClientHTTP2Limits: connections are opened up to the maximum when all are full, and
// then requests wait.
func TestClientHTTP2Limits(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	s := &Server{Handler: blockingHandler(release, &arrived, &gone).sluice}
	s.HTTP2.MaxConcurrentStreams = 2
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveUntilEnd(t, s, ln)
	r := &http2Rig{addr: ln.Addr().String()}
	c := r.host(HTTP2Only)
	c.MaxHTTP2Conns = 2
	c.MaxConnWaitTimeout = time.Minute
	defer c.CloseIdleConnections()
	if err := c.Prewarm(t.Context(), 5); err != nil { // settings come with the first answer
		t.Fatal(err)
	}
	if err := c.Do(newCall("GET", r.url("/now"))); err != nil {
		t.Fatal(err)
	}
	checkPool(t, c, 1, 1)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := c.Do(newCall("GET", r.url("/"))); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "four of six requests arrive", func() bool { return arrived.Load() == 4 })
	checkPool(t, c, 2, 0)
	eventually(t, "two wait", func() bool { return c.http2.Waiting() == 2 })
	if n := c.PendingRequests(); n != 6 {
		t.Errorf("%d pending requests, want 6", n)
	}
	if err := c.DoTimeout(new(Request), nil, time.Second); err == nil {
		t.Error("an invalid request succeeded")
	}
	req, resp := newCall("GET", r.url("/"))
	if err := c.DoTimeout(req, resp, 10*time.Millisecond); err != ErrTimeout {
		t.Errorf("waited beyond its time: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var phase *PhaseError
	if err := c.DoContext(ctx, req, resp); !errors.As(err, &phase) || phase.Phase != PhaseWait {
		t.Errorf("waited beyond its context: %v", err)
	}
	c.MaxConnWaitTimeout = 0
	if err := c.Do(req, resp); err != ErrNoFreeConns {
		t.Errorf("error %v, want ErrNoFreeConns", err)
	}
	close(release)
	all.Wait()
	if arrived.Load() != 6 || r.dials.Load() != 2 {
		t.Errorf("%d requests, %d dials", arrived.Load(), r.dials.Load())
	}
}

// TestHTTP2HeadReceived: what becomes of the body of each response.
func TestHTTP2HeadReceived(t *testing.T) {
	const unknown = -1 // the length is not announced
	for _, tc := range []struct {
		name   string
		status int
		length int64
		isLast bool
		set    func(x *http2Call)
		form   http2Form
		err    error
	}{
		{"interim", 199, unknown, false, nil, noFinalHead, nil},
		{"final", 200, unknown, false, nil, bodyKept, nil},
		{"alone", 200, unknown, true, nil, headAlone, nil},
		{"HEAD", 200, 5, false, func(x *http2Call) { x.stream.IsHead = true }, bodyDropped, nil},
		{"204", 204, unknown, false, nil, bodyDropped, nil},
		{"304 with a length", 304, 5, false, func(x *http2Call) { x.resp.StreamBody = true }, bodyDropped, nil},
		{"skipped", 200, http1client.MaxDropped, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, nil},
		{"skipped, too long", 200, http1client.MaxDropped + 1, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, errUnwantedBody},
		{"skipped, of any length", 200, unknown, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, errUnwantedBody},
		{"skipped, empty", 200, 0, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, nil},
		{"stream", 200, unknown, false, func(x *http2Call) { x.resp.StreamBody = true }, bodyStreamed, nil},
		{"unwanted stream", 200, http1client.MaxDropped, false, func(x *http2Call) { x.resp.StreamBody, x.call.wants = true, wantsNone }, bodyDropped, nil},
		{"unwanted, in memory", 200, unknown, false, func(x *http2Call) { x.call.wants = wantsNone }, bodyKept, nil},
		{"wanted in memory", 200, unknown, false, func(x *http2Call) { x.resp.StreamBody, x.call.wants = true, wantsBytes }, bodyKept, nil},
		{"stream of a redirect that is followed", 301, 5, false, func(x *http2Call) { x.resp.StreamBody, x.call.wants = true, wantsBytes }, bodyDropped, nil},
		{"at the limit", 200, 10, false, func(x *http2Call) { x.c.MaxResponseBodySize = 10 }, bodyKept, nil},
		{"above the limit", 200, 11, false, func(x *http2Call) { x.c.MaxResponseBodySize = 10 }, bodyDropped, ErrBodyTooLarge},
		{"too long", 200, math.MaxInt64, false, nil, bodyDropped, ErrBodyTooLarge},
		{"accepted CONNECT", 299, unknown, true, func(x *http2Call) { x.protocol = []byte("p") }, bodyStreamed, nil},
		{"refused CONNECT", 300, unknown, true, func(x *http2Call) { x.protocol = []byte("p") }, headAlone, nil},
		{"refused CONNECT with a body", 300, unknown, false, func(x *http2Call) { x.protocol = []byte("p") }, bodyStreamed, nil},
	} {
		x := &http2Call{c: &HostClient{}, call: new(clientCall), req: new(Request), resp: new(Response)}
		if tc.set != nil {
			tc.set(x)
		}
		var head h2.Head
		head.StatusCode, head.ContentLength = tc.status, tc.length
		if tc.length != unknown {
			head.Flags = h1.HasLength
		}
		isStreamed, err := x.HeadReceived(&head, tc.isLast)
		if x.form != tc.form || err != tc.err || isStreamed != (tc.form == bodyStreamed) {
			t.Errorf("%s: form %d, want %d; streamed %v, %v", tc.name, x.form, tc.form, isStreamed, err)
		}
		if tc.form != noFinalHead && (x.resp.StatusCode() != tc.status || x.resp.limit != x.c.MaxResponseBodySize) {
			t.Errorf("%s: status %d, limit %d", tc.name, x.resp.StatusCode(), x.resp.limit)
		}
		if tc.form == bodyKept && x.resp.StreamBody {
			t.Errorf("%s: the response is to have a stream", tc.name)
		}
	}
	x := &http2Call{c: &HostClient{MaxResponseBodySize: -1}, call: new(clientCall), req: new(Request), resp: new(Response)}
	var head h2.Head
	head.StatusCode, head.ContentLength = 200, 1
	if _, err := x.HeadReceived(&head, false); err != nil || x.resp.limit != 0 {
		t.Errorf("a negative limit: %v, %d", err, x.resp.limit)
	}
}

// TestHTTP2BodyReceived: bodies are kept up to the limit, and dropped up to http1client.MaxDropped.
func TestHTTP2BodyReceived(t *testing.T) {
	x := &http2Call{form: bodyDropped, resp: new(Response)}
	for _, step := range []struct {
		n   int
		err error
	}{{1, nil}, {http1client.MaxDropped - 1, nil}, {1, errUnwantedBody}} {
		if err := x.BodyReceived(make([]byte, step.n)); err != step.err || len(x.resp.buffered()) != 0 {
			t.Errorf("dropped %d: %v, %d bytes", x.unwanted, err, len(x.resp.buffered()))
		}
	}
	x = &http2Call{form: bodyKept, resp: new(Response)}
	x.resp.limit = 5
	for i, err := range []error{nil, nil, ErrBodyTooLarge} {
		if got := x.BodyReceived([]byte("abc")[:2+i%2]); got != err {
			t.Errorf("kept: %v, want %v", got, err)
		}
	}
	if string(x.resp.buffered()) != "ababc" {
		t.Errorf("kept %q", x.resp.buffered())
	}
}

// TestHTTP2Explain: what the failure of a stream means to the caller.
func TestHTTP2Explain(t *testing.T) {
	violation, other := &h2.Error{}, errors.New("other")
	for _, tc := range []struct {
		name string
		err  error
		set  func(x *http2Call)
		want error
		same bool // the error is unchanged
	}{
		{"HTTP_1_1_REQUIRED", other, func(x *http2Call) { x.call.needsHTTP1, x.c.HTTP2 = true, HTTP2Only }, ErrNoHTTP2, false},
		{"HTTP_1_1_REQUIRED, auto", other, func(x *http2Call) { x.call.needsHTTP1, x.c.HTTP2 = true, HTTP2Auto }, other, true},
		{"not HTTP/2", violation, nil, ErrNoHTTP2, false},
		{"a violation over TLS", violation, func(x *http2Call) { x.c.IsTLS = true }, violation, true},
		{"a violation later", violation, func(x *http2Call) { x.member.Conn.isSettled.Store(true) }, violation, true},
		{"another error at first", other, nil, other, true},
		{"end before the head", io.EOF, nil, io.EOF, false},
		{"end after the head", io.EOF, func(x *http2Call) { x.form = bodyKept }, io.ErrUnexpectedEOF, false},
		{"GOAWAY", http2client.ErrGoingAway, nil, io.EOF, false},
		{"source", http2client.ErrSourceLength, func(x *http2Call) { x.source.Count, x.stream.Length = 3, 5 }, io.ErrUnexpectedEOF, false},
	} {
		x := &http2Call{c: &HostClient{}, member: pool.NewMember(&http2Peer{}, 1), call: new(clientCall), req: new(Request)}
		if tc.set != nil {
			tc.set(x)
		}
		err := x.explain(tc.err)
		if !errors.Is(err, tc.want) || (err == tc.err) != tc.same {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if tc.name == "source" && err.Error() != "sluice: body stream ended after 3 of 5 bytes: unexpected EOF" {
			t.Error(err)
		}
	}
}

// TestHTTP2CallForgets: a call in the pool has nothing of the last one.
func TestHTTP2CallForgets(t *testing.T) {
	x := acquireHTTP2Call()
	x.c, x.call, x.req, x.resp, x.member = &HostClient{}, new(clientCall), new(Request), new(Response), pool.NewMember(&http2Peer{}, 1)
	x.content, x.late, x.form, x.unwanted = buf.Get(1), new(message.RequestHeader), bodyStreamed, 1
	x.framing, x.source = message.Framing{Length: 1}, body.Upload{Count: 1}
	s := &x.stream
	s.Request, s.Content, s.Source, s.Context = x, []byte("x"), strings.NewReader(""), t.Context()
	s.Length, s.HasTrailer, s.IsHead = 1, true, true
	x.trailers.Add(0, []byte("x"), []byte("y"))
	releaseHTTP2Call(x)
	if x.c != nil || x.call != nil || x.req != nil || x.resp != nil || x.member != nil || x.content != nil || x.late != nil || x.form != noFinalHead ||
		x.unwanted != 0 || x.framing != (message.Framing{}) || x.source.Count != 0 || x.trailers.Len() != 0 {
		t.Errorf("the call keeps %+v", x)
	}
	if s.Request != nil || s.Content != nil || s.Source != nil || s.Context != nil || s.Length != 0 || s.HasTrailer || s.IsHead {
		t.Errorf("the stream keeps %+v", s)
	}
}

// TestHTTP2InvalidRequest: a request that cannot be written gives its place back, and is
// not sent again.
func TestHTTP2InvalidRequest(t *testing.T) {
	peer := newFramePeer(t, func(p *framePeer) { p.request() })
	c := peer.host()
	c.HTTP2 = HTTP2Only
	var call clientCall
	m, _, err := c.takeEither(&call)
	if err != nil {
		t.Fatal(err)
	}
	req, resp := newCall("GET", "http://a b/")
	isStale, retry, err := c.roundTripHTTP2(&call, m, req, resp)
	if invalid := InvalidHostError(""); isStale || retry || !errors.As(err, &invalid) {
		t.Errorf("stale %v, retry %v, %v", isStale, retry, err)
	}
	checkPool(t, c, 1, 1)
	c.CloseIdleConnections()
}

// TestHTTP2NotChosen: HTTP/2 needs a TLS connection whose handshake succeeds. The
// connection is closed if it does not.
func TestHTTP2NotChosen(t *testing.T) {
	c := &HostClient{IsTLS: true, HTTP2: HTTP2Auto}
	if isHTTP2, err := c.chosen(&stubConn{}); isHTTP2 || err != nil {
		t.Errorf("not TLS: %v, %v", isHTTP2, err)
	}
	stub := &stubConn{}
	c = &HostClient{Addr: "h:443", IsTLS: true, HTTP2: HTTP2Auto, Dial: func(string) (net.Conn, error) {
		return tls.Client(stub, &tls.Config{ServerName: "h"}), nil
	}}
	req, resp := newCall("GET", "https://h/")
	var dialed *ErrDialWithUpstream
	if err := c.DoTimeout(req, resp, time.Hour); err != ErrTLSHandshakeTimeout && !errors.As(err, &dialed) {
		t.Errorf("a failed handshake: %v", err)
	}
	if n := len(stub.told); n == 0 || stub.told[n-1] != "close" {
		t.Errorf("the connection is open after %q", stub.told)
	}
	checkPool(t, c, 0, 0)
}

// TestConnectProtocolFails: which failures are final, after how many attempts.
func TestConnectProtocolFails(t *testing.T) {
	admits := http2.Setting{ID: 8, Val: 1} // SETTINGS_ENABLE_CONNECT_PROTOCOL
	refuse := func(code http2.ErrCode) func(p *framePeer, stream uint32) {
		return func(p *framePeer, stream uint32) { _ = p.WriteRSTStream(stream, code) }
	}
	for _, tc := range []struct {
		name     string
		answer   func(p *framePeer, stream uint32)
		requests int64
		status   int // 0: an error
	}{
		{"refused each time", refuse(http2.ErrCodeRefusedStream), 3, 0},
		{"reset", refuse(http2.ErrCodeInternal), 1, 0},
		{"answered without a body", func(p *framePeer, stream uint32) { p.answer(stream, "403", "") }, 1, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int64
			peer := newFramePeer(t, func(p *framePeer) {
				for stream := p.head(); stream != 0; stream = p.head() {
					requests.Add(1)
					tc.answer(p, stream)
				}
			}, admits)
			var host *HostClient
			c := &Client{HTTP2: HTTP2Only, MaxIdemponentCallAttempts: 3, ConfigureClient: func(hc *HostClient) error { host = hc; return nil }}
			req, resp := newCall("GET", peer.url("/"))
			conn, err := c.ConnectProtocol(t.Context(), "p", req, resp)
			if conn != nil || (err == nil) != (tc.status != 0) || tc.status != 0 && resp.StatusCode() != tc.status {
				t.Errorf("%v, %v, status %d", conn, err, resp.StatusCode())
			}
			if requests.Load() != tc.requests || req.call != nil || host.PendingRequests() != 0 || host.lastUse.Load() == 0 {
				t.Errorf("%d requests, want %d; %+v, %d pending", requests.Load(), tc.requests, req.call, host.PendingRequests())
			}
			checkPool(t, host, 1, 1)
			c.CloseIdleConnections()
		})
	}
	req, resp := newCall("GET", "ftp://h/")
	if conn, err := new(Client).ConnectProtocol(t.Context(), "p", req, resp); conn != nil || err != errUnsupportedScheme {
		t.Errorf("ftp: %v, %v", conn, err)
	}
	c := &Client{HTTP2: HTTP2Auto, ConfigureClient: func(hc *HostClient) error { hc.IsTLS = true; return nil }}
	req, resp = newCall("GET", "http://h/")
	if conn, err := c.ConnectProtocol(t.Context(), "p", req, resp); conn != nil || err != ErrHostClientRedirectToDifferentScheme {
		t.Errorf("another scheme: %v, %v", conn, err)
	}
}

// framePeer is a server of HTTP/2 that a script plays frame by frame.
type framePeer struct {
	*http2.Framer
	conn   *peerConn
	block  bytes.Buffer
	heads  *hpack.Encoder
	number int
	paths  map[uint32]string // of the requests
}

// newFramePeer runs script on each connection, after SETTINGS.
func newFramePeer(t testing.TB, script func(p *framePeer), settings ...http2.Setting) *clientPeer {
	return newClientPeer(t, func(c *peerConn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c.br, preface); err != nil {
			return
		}
		p := &framePeer{Framer: http2.NewFramer(c, c.br), conn: c, number: c.number, paths: map[uint32]string{}}
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		p.heads = hpack.NewEncoder(&p.block)
		_ = p.WriteSettings(settings...)
		script(p)
	})
}

// next returns the next frame, nil at the end of the connection. It acknowledges SETTINGS
// and PING itself.
func (p *framePeer) next() http2.Frame {
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return nil
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = p.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = p.WritePing(true, frame.Data)
			}
		default:
			return frame
		}
	}
}

// head waits for the head of a request, and returns its stream; 0 at the end of the
// connection.
func (p *framePeer) head() (stream uint32) {
	for frame := p.next(); frame != nil; frame = p.next() {
		if head, ok := frame.(*http2.MetaHeadersFrame); ok {
			return head.StreamID
		}
	}
	return 0
}

// request waits for the end of a request, and returns its stream and path; 0 at the end
// of the connection.
func (p *framePeer) request() (stream uint32, path string) {
	for frame := p.next(); frame != nil; frame = p.next() {
		isLast := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			p.paths[frame.StreamID] = frame.PseudoValue("path")
			isLast = frame.StreamEnded()
		case *http2.DataFrame:
			isLast = frame.StreamEnded()
		}
		if isLast {
			id := frame.Header().StreamID
			return id, p.paths[id]
		}
	}
	return 0, ""
}

// answer sends a response.
func (p *framePeer) answer(stream uint32, status, body string) {
	p.block.Reset()
	_ = p.heads.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: body == ""})
	if body != "" {
		_ = p.WriteData(stream, true, []byte(body))
	}
}
