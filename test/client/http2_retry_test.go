package client_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framePeer is a server of HTTP/2 that a script plays frame by frame.
type framePeer struct {
	*http2.Framer
	conn   *harness.PeerConn
	block  bytes.Buffer
	heads  *hpack.Encoder
	number int
	paths  map[uint32]string // of the requests
}

// newFramePeer runs script on each connection, after SETTINGS.
func newFramePeer(t testing.TB, script func(p *framePeer), settings ...http2.Setting) *harness.ClientPeer {
	return harness.NewClientPeer(t, func(c *harness.PeerConn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c.Br, preface); err != nil {
			return
		}
		p := &framePeer{Framer: http2.NewFramer(c, c.Br), conn: c, number: c.Number, paths: map[uint32]string{}}
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

// TestClientHTTP2Retries: what a server has not processed is sent again with any method;
// what it may have processed is not, unless the method is idempotent.
func TestClientHTTP2Retries(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		fail         func(p *framePeer, stream uint32)
		set          func(req *sluice.Request)
		dials        int
		isLost       bool // the request fails
	}{
		{"refused", "POST", func(p *framePeer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, nil, 1, false},
		{"GOAWAY below it", "POST", func(p *framePeer, s uint32) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil) }, nil, 2, false},
		{"GOAWAY, its stream is processed", "POST", func(p *framePeer, s uint32) {
			_ = p.WriteGoAway(s, http2.ErrCodeNo, nil)
			p.answer(s, "200", "answer")
		}, nil, 1, false},
		{"reset", "POST", func(p *framePeer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeInternal) }, nil, 1, true},
		{"reset, idempotent", "PUT", func(p *framePeer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeInternal) }, nil, 1, false},
		{"connection lost", "POST", func(p *framePeer, s uint32) { p.conn.Close() }, nil, 1, true},
		{"connection lost, idempotent", "GET", func(p *framePeer, s uint32) { p.conn.Close() }, nil, 2, false},
		{"connection lost, with a key", "POST", func(p *framePeer, s uint32) { p.conn.Close() }, func(req *sluice.Request) {
			req.Header.Set("Idempotency-Key", "1")
		}, 2, false},
		{"refused, a stream that can be sought", "POST", func(p *framePeer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, func(req *sluice.Request) {
			req.SetBodyStream(strings.NewReader("body"), 4)
		}, 1, false},
		{"refused, a stream that was read", "POST", func(p *framePeer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, func(req *sluice.Request) {
			req.SetBodyStream(io.MultiReader(strings.NewReader("body")), 4)
		}, 1, true},
		{"HTTP_1_1_REQUIRED without HTTP/1.1", "GET", func(p *framePeer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeHTTP11Required) }, nil, 1, true},
		{"misdirected", "POST", func(p *framePeer, s uint32) { p.answer(s, "421", "") }, nil, 2, false},
		{"misdirected, a stream", "POST", func(p *framePeer, s uint32) { p.answer(s, "421", "answer") }, func(req *sluice.Request) {
			req.SetBodyStream(io.MultiReader(strings.NewReader("body")), 4)
		}, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int64
			peer := newFramePeer(t, func(p *framePeer) {
				for stream, _ := p.request(); stream != 0; stream, _ = p.request() {
					if requests.Add(1) == 1 {
						tc.fail(p, stream)
					} else {
						p.answer(stream, "200", "answer")
					}
				}
			})
			c := peer.Host()
			c.HTTP2 = sluice.HTTP2Only
			req, resp := harness.NewCall(tc.method, peer.URL("/"))
			if tc.method != "GET" {
				req.SetBodyString("body")
			}
			if tc.set != nil {
				tc.set(req)
			}
			err := c.Do(req, resp)
			if (err != nil) != tc.isLost || err == nil && string(resp.Body()) != "answer" {
				t.Errorf("%v, %q", err, resp.Body())
			}
			if n := peer.Accepted(); n != tc.dials {
				t.Errorf("%d connections, want %d", n, tc.dials)
			}
			c.CloseIdleConnections()
		})
	}
}

// A context that ends while the server takes no more of a request is of PhaseWrite.
func TestClientHTTP2PhaseWrite(t *testing.T) {
	for name, set := range map[string]func(req *sluice.Request){
		"bytes":  func(req *sluice.Request) { req.SetBody(make([]byte, 1<<20)) },
		"stream": func(req *sluice.Request) { req.SetBodyStream(bytes.NewReader(make([]byte, 1<<20)), -1) },
	} {
		full := make(chan struct{})
		peer := newFramePeer(t, func(p *framePeer) {
			for received := 0; ; {
				frame, err := p.ReadFrame()
				if err != nil {
					return
				}
				if data, ok := frame.(*http2.DataFrame); ok {
					if received += len(data.Data()); received == 1<<16-1 { // the initial window
						close(full)
					}
				}
			}
		})
		c := peer.Host()
		c.HTTP2 = sluice.HTTP2Only
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-full; cancel() }()
		req, resp := harness.NewCall("POST", peer.URL("/"))
		set(req)
		var phase *sluice.PhaseError
		if err := c.DoContext(ctx, req, resp); !errors.As(err, &phase) || phase.Phase != sluice.PhaseWrite {
			t.Errorf("%s: %v", name, err)
		}
		c.CloseIdleConnections()
	}
}

// A connection that ended while it was idle costs no request and no attempt.
func TestClientHTTP2IdleConnectionEnds(t *testing.T) {
	for name, end := range map[string]func(p *framePeer){
		"closed": func(p *framePeer) { p.conn.Close() },
		"goaway": func(p *framePeer) { _ = p.WriteGoAway(1, http2.ErrCodeNo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{}, 8)
			peer := newFramePeer(t, func(p *framePeer) {
				stream, _ := p.request()
				p.answer(stream, "200", "answer")
				end(p)
				ended <- struct{}{}
				p.request()
			})
			c := peer.Host()
			c.HTTP2, c.MaxIdemponentCallAttempts = sluice.HTTP2Only, 1
			for i := range 3 {
				req, resp := harness.NewCall("POST", peer.URL("/"))
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "answer" {
					t.Fatalf("request %d: %v, %q", i, err, resp.Body())
				}
				<-ended
				time.Sleep(10 * time.Millisecond) // what was sent arrives
			}
			c.CloseIdleConnections()
		})
	}
}

// TestClientHTTP2LosesNothing: while connections are ended at random by GOAWAY, each
// POST is answered once, and none is processed twice.
func TestClientHTTP2LosesNothing(t *testing.T) {
	var processed sync.Map
	var double atomic.Int64
	peer := newFramePeer(t, func(p *framePeer) {
		random := rand.New(rand.NewSource(int64(p.number)))
		last, highest := uint32(math.MaxInt32), uint32(0) // last is that of GOAWAY
		for stream, path := p.request(); stream != 0; stream, path = p.request() {
			choice := random.Intn(12)
			switch {
			case stream > last:
				continue // it was told so
			case last < math.MaxInt32:
			case choice == 0:
				_ = p.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
				continue
			case choice == 1:
				last = highest
				_ = p.WriteGoAway(last, http2.ErrCodeNo, nil)
				if stream > last {
					continue
				}
			case choice == 2:
				last = max(stream, highest)
				_ = p.WriteGoAway(last, http2.ErrCodeNo, nil)
			}
			highest = max(highest, stream)
			if _, isSecond := processed.LoadOrStore(path, true); isSecond {
				double.Add(1)
			}
			p.answer(stream, "200", path)
		}
	})
	c := peer.Host()
	c.HTTP2, c.MaxIdemponentCallAttempts, c.MaxConnWaitTimeout = sluice.HTTP2Only, 100, time.Minute
	defer c.CloseIdleConnections()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 50 {
				path := fmt.Sprintf("/%d/%d", worker, i)
				req, resp := harness.NewCall("POST", peer.URL(path))
				req.SetBodyString("body")
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != path {
					t.Errorf("%s: %v, %q", path, err, resp.Body())
				}
			}
		})
	}
	within(t, "the load", all.Wait)
	if n := double.Load(); n != 0 {
		t.Errorf("%d requests were processed twice", n)
	}
}

// While connections are cut at random, no GET fails, and no POST is processed twice or
// answered without having been processed.
func TestClientHTTP2Kills(t *testing.T) {
	calls := 100
	if testing.Short() {
		calls = 30
	}
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			var served sync.Map
			var total atomic.Int64
			count := func(path string) {
				total.Add(1)
				n, _ := served.LoadOrStore(path, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
			onEachHTTP2Server(t, harness.HTTP2Handler{
				Sluice:  func(ctx *sluice.RequestCtx) { count(string(ctx.Path())) },
				NetHTTP: func(_ http.ResponseWriter, r *http.Request) { count(r.URL.Path) },
			}, func(t *testing.T, r *harness.HTTP2Rig) {
				c := r.Host(sluice.HTTP2Only)
				c.MaxIdemponentCallAttempts = 100
				c.Dial = nil // a connection is killed after its handshake, when it is used again
				c.Trace = &sluice.ClientTrace{GotConn: func(info sluice.GotConnInfo) {
					if info.IsReused {
						r.Note(innermostConn(info.Conn))
					}
				}}
				defer c.CloseIdleConnections()
				var running atomic.Int64
				var all sync.WaitGroup
				for worker := range 4 {
					running.Add(1)
					all.Go(func() {
						defer running.Add(-1)
						for i := range calls {
							path := fmt.Sprintf("/%s/%d/%d", r.Addr, worker, i) // a server may be late
							err := c.Do(harness.NewCall(method, r.URL(path)))
							n, _ := served.Load(path)
							switch {
							case err == nil && n == nil:
								t.Errorf("%s: answered, but not processed", path)
							case method == "POST" && n != nil && n.(*atomic.Int64).Load() > 1:
								t.Errorf("%s: processed twice", path)
							case method == "GET" && err != nil:
								t.Errorf("%s: %v", path, err)
							}
						}
					})
				}
				for running.Load() > 0 {
					time.Sleep(time.Millisecond)
					r.Kill()
				}
				within(t, "the load", all.Wait)
			})
		})
	}
}

// A server that requires HTTP/1.1 for a request gets it (RFC 9113 section 7), and other
// requests over HTTP/2. A TLSConfig that offers both decides nothing else.
func TestClientHTTP2Requires1(t *testing.T) {
	config, client := harness.TLSConfigs(t, "127.0.0.1")
	var isRefused atomic.Bool
	s := &http.Server{TLSConfig: config, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Proto, " ", string(body))
		}
	})}
	s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		br := bufio.NewReader(c)
		if _, err := io.ReadFull(br, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		p := &framePeer{Framer: http2.NewFramer(c, br), paths: map[uint32]string{}}
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		p.heads = hpack.NewEncoder(&p.block)
		_ = p.WriteSettings()
		for stream, path := p.request(); stream != 0; stream, path = p.request() {
			switch path {
			case "/reset":
				isRefused.Store(true)
				_ = p.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
			case "/goaway":
				isRefused.Store(true)
				_ = p.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil)
			case "/misdirected": // to a connection that requires HTTP/1.1
				if isRefused.Swap(true) {
					_ = p.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
				} else {
					p.answer(stream, "421", "")
				}
			default:
				p.answer(stream, "200", "HTTP/2.0")
			}
		}
	}}
	config.NextProtos = []string{"h2", "http/1.1"}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(ln, "", "") }()
	defer func() { s.Close(); <-served }()
	both := client.Clone()
	both.NextProtos = []string{"h2", "http/1.1"}
	for name, config := range map[string]*tls.Config{"default": client, "both": both} {
		c := &sluice.HostClient{Addr: ln.Addr().String(), IsTLS: true, TLSConfig: config, HTTP2: sluice.HTTP2Auto}
		for path, want := range map[string]string{"/": "HTTP/2.0", "/reset": "HTTP/1.1 body", "/goaway": "HTTP/1.1 body", "/misdirected": "HTTP/1.1 body"} {
			isRefused.Store(false)
			for range 2 {
				req, resp := harness.NewCall("POST", "https://"+c.Addr+path)
				if path == "/misdirected" {
					req.SetBodyString("body") // it is sent three times
				} else {
					req.SetBodyStream(strings.NewReader("body"), -1)
				}
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != want || isRefused.Load() != (path != "/") {
					t.Errorf("%s %s: %v, %q", name, path, err, resp.Body())
				}
			}
		}
		c.CloseIdleConnections()
	}
}

// A request with SetConnectionClose is the last one on its connection, as it is in
// HTTP/1.1. Others that are open go on.
func TestClientHTTP2ConnectionClose(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	onEachHTTP2Server(t, blockingHandler(release, &arrived, &gone), func(t *testing.T, r *harness.HTTP2Rig) {
		arrived.Store(0)
		c := r.Host(sluice.HTTP2Only)
		c.MaxHTTP2Conns = 1
		open := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			req, resp := harness.NewCall("GET", r.URL("/wait"))
			open <- c.DoContext(ctx, req, resp)
		}()
		eventually(t, "a request arrives", func() bool { return arrived.Load() == 1 })
		for dials := range 3 {
			req, resp := harness.NewCall("GET", r.URL("/now"))
			req.SetConnectionClose()
			if err := c.Do(req, resp); err != nil || r.Dials.Load() != int64(dials+1) {
				t.Errorf("%v, %d dials, want %d", err, r.Dials.Load(), dials+1)
			}
		}
		checkPool(t, c, 1, 0)
		cancel()
		if err := <-open; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		checkPool(t, c, 0, 0)
	})
	close(release)
}
