package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/test/harness"
)

// blockingHandler answers when release is closed, and reports requests that were given
// up. Those for /now are answered at once.
func blockingHandler(release <-chan struct{}, arrived, gone *atomic.Int64) harness.HTTP2Handler {
	return harness.HTTP2Handler{
		Sluice: func(ctx *sluice.RequestCtx) {
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
		NetHTTP: func(_ http.ResponseWriter, r *http.Request) {
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

// Who gives up resets the stream, and nothing else: the server learns of it, and the
// connection stays.
func TestClientHTTP2GivesUpStreams(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var arrived, gone atomic.Int64
	onEachHTTP2Server(t, blockingHandler(release, &arrived, &gone), func(t *testing.T, r *harness.HTTP2Rig) {
		c := r.Host(sluice.HTTP2Only)
		defer c.CloseIdleConnections()
		if err := c.Do(harness.NewCall("GET", r.URL("/now"))); err != nil { // a limit must not pass while it dials, and have it dial again
			t.Fatal(err)
		}
		cause, dials := errors.New("enough"), int64(1)
		for name, do := range map[string]func(req *sluice.Request, resp *sluice.Response, limit time.Duration) error{
			"DoTimeout": func(req *sluice.Request, resp *sluice.Response, limit time.Duration) error {
				return c.DoTimeout(req, resp, limit)
			},
			"DoDeadline": func(req *sluice.Request, resp *sluice.Response, limit time.Duration) error {
				return c.DoDeadline(req, resp, time.Now().Add(limit))
			},
			"SetTimeout": func(req *sluice.Request, resp *sluice.Response, limit time.Duration) error {
				req.SetTimeout(limit)
				return c.Do(req, resp)
			},
			"ReadTimeout": func(req *sluice.Request, resp *sluice.Response, limit time.Duration) error {
				dials++
				return r.Reading(c, limit).Do(req, resp)
			},
			"DoContext": func(req *sluice.Request, resp *sluice.Response, _ time.Duration) error {
				ctx, cancel := context.WithCancelCause(t.Context())
				before := arrived.Load()
				go func() {
					eventually(t, "the request arrives", func() bool { return arrived.Load() > before })
					cancel(cause)
				}()
				return c.DoContext(ctx, req, resp)
			},
		} {
			var err error
			// On a busy machine the limit may pass before the request is sent.
			for before, limit := arrived.Load(), 30*time.Millisecond; arrived.Load() == before; limit *= 2 {
				req, resp := harness.NewCall("POST", r.URL("/wait"))
				req.SetBodyString("body")
				err = do(req, resp, limit)
			}
			var phase *sluice.PhaseError
			switch {
			case name != "DoContext":
				if err != sluice.ErrTimeout {
					t.Errorf("%s: %v", name, err)
				}
			case !errors.As(err, &phase) || phase.Phase != sluice.PhaseRead || !errors.Is(err, cause):
				t.Errorf("%s: %v", name, err)
			}
			eventually(t, "the server learns of it", func() bool { return gone.Load() == arrived.Load() })
			if err := c.Do(harness.NewCall("GET", r.URL("/now"))); err != nil {
				t.Errorf("after %s: %v", name, err)
			}
		}
		if n := r.Dials.Load(); n != dials {
			t.Errorf("%d dials, want %d", n, dials)
		}
	})
}

// A streamed body: what is read arrives, the limit holds, and closing early resets the
// stream alone.
func TestClientHTTP2Streams(t *testing.T) {
	onEachHTTP2Server(t, tellRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		c := r.Host(sluice.HTTP2Only)
		defer c.CloseIdleConnections()
		get := func(target string) *sluice.Response {
			req, resp := harness.NewCall("GET", r.URL(target))
			resp.StreamBody = true
			if err := c.Do(req, resp); err != nil {
				t.Fatal(err)
			}
			return resp
		}
		resp := get("/?size=3000000")
		if _, err := io.ReadFull(resp.BodyStream(), make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		stream := resp.BodyStream()
		if err := resp.CloseBodyStream(); err != nil {
			t.Error(err)
		}
		if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("reading after closing: %v", err)
		}
		// A Read that waits is interrupted.
		resp = get("/?size=3000000")
		stream = resp.BodyStream()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := io.Copy(slowWriter{}, stream)
			if err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		_ = stream.(io.Closer).Close()
		all.Wait()
		// The context ends it.
		ctx, cancel := context.WithCancel(t.Context())
		req, resp := harness.NewCall("GET", r.URL("/?size=30000000"))
		resp.StreamBody = true
		if err := c.DoContext(ctx, req, resp); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.Copy(io.Discard, resp.BodyStream()); !errors.Is(err, context.Canceled) {
			t.Errorf("after the context: %v", err)
		}
		if n := r.Dials.Load(); n != 1 {
			t.Errorf("%d dials, want 1", n)
		}
		checkPool(t, c, 1, 1)
	})
}

// A body that is too long, with and without a length, and one that nobody wants, end the
// stream alone.
func TestClientHTTP2UnwantedBodies(t *testing.T) {
	onEachHTTP2Server(t, tellRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		c := r.Host(sluice.HTTP2Only)
		defer c.CloseIdleConnections()
		c.MaxResponseBodySize = 1000
		for _, target := range []string{"/?size=1000", "/?size=1000&stream=1"} {
			for _, streams := range []bool{false, true} {
				req, resp := harness.NewCall("GET", r.URL(target))
				resp.StreamBody = streams
				err := c.Do(req, resp)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.BodyStream())
				}
				if !errors.Is(err, sluice.ErrBodyTooLarge) {
					t.Errorf("%s, stream %v: %v", target, streams, err)
				}
			}
		}
		c.MaxResponseBodySize = 0
		for _, target := range []string{"/?size=1", "/?size=3000000", "/?size=3000000&stream=1"} {
			req := new(sluice.Request)
			req.SetRequestURI(r.URL(target))
			c.StreamResponseBody = true
			if err := c.Do(req, nil); err != nil {
				t.Error(err)
			}
		}
		if n := r.Dials.Load(); n != 1 {
			t.Errorf("%d dials, want 1", n)
		}
		checkPool(t, c, 1, 1)
	})
}

// slowWriter takes its time.
type slowWriter struct{}

func (slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

// TestClientHTTP2Verbs: redirects, and the methods that return bodies.
func TestClientHTTP2Verbs(t *testing.T) {
	onEachHTTP2Server(t, tellRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		c := &sluice.Client{HTTP2: sluice.HTTP2Only, TLSConfig: r.Client, Dial: r.Dial, StreamResponseBody: true}
		defer c.CloseIdleConnections()
		status, body, err := c.Get(nil, r.URL("/?status=302&to=/next"))
		if err != nil || status != 200 || !strings.HasPrefix(string(body), "GET "+r.Addr+" /next\n") {
			t.Errorf("%d, %v, %q", status, err, body)
		}
		if status, body, err = c.Get(nil, r.URL("/?status=302&to=mailto:x")); err != nil || status != 302 || len(body) == 0 {
			t.Errorf("to another scheme: %d, %v, %q", status, err, body)
		}
		req, resp := harness.NewCall("POST", r.URL("/?status=307&to=/next"))
		req.SetBodyString("again")
		if err := c.DoRedirects(req, resp, 3); err != nil || !strings.HasPrefix(string(resp.Body()), "POST "+r.Addr+" /next\n") || !strings.Contains(string(resp.Body()), "again") {
			t.Errorf("%v, %q", err, resp.Body())
		}
		if n := r.Dials.Load(); n != 1 || c.ConnsCount() != 1 {
			t.Errorf("%d dials, %d connections, want 1", n, c.ConnsCount())
		}
	})
}

// CONNECT is a request of HTTP/1.1.
func TestClientHTTP2Connect(t *testing.T) {
	r := harness.HTTP2Servers[0].Start(t, mirrorRequest)
	for mode, want := range map[sluice.HTTP2Mode]error{sluice.HTTP2Auto: nil, sluice.HTTP2Only: sluice.ErrNotSupportedHTTP2} {
		c := r.Host(mode)
		req, resp := harness.NewCall("CONNECT", r.URL("/"))
		if err := c.Do(req, resp); err != want || err == nil && string(resp.Header.Protocol()) != "HTTP/1.1" {
			t.Errorf("mode %d: %v, %s", mode, err, resp.Header.Protocol())
		}
		c.CloseIdleConnections()
	}
}

// A TLSConfig with protocols of its own is offered unchanged, and a dialer may set TLS
// up itself.
func TestClientHTTP2OwnTLS(t *testing.T) {
	r := harness.HTTP2Servers[0].Start(t, mirrorRequest)
	for _, tc := range []struct {
		protocols []string
		want      string
	}{
		{[]string{"http/1.1"}, "HTTP/1.1"},
		{[]string{"h2"}, "HTTP/2.0"},
	} {
		config := r.Client.Clone()
		config.NextProtos, config.ServerName = tc.protocols, "127.0.0.1"
		for name, c := range map[string]*sluice.HostClient{
			"TLSConfig": {Addr: r.Addr, IsTLS: true, HTTP2: sluice.HTTP2Auto, TLSConfig: config},
			"dialer": {Addr: r.Addr, IsTLS: true, HTTP2: sluice.HTTP2Auto, Dial: func(addr string) (net.Conn, error) {
				nc, err := net.Dial("tcp", addr)
				return tls.Client(nc, config), err
			}},
		} {
			req, resp := harness.NewCall("GET", r.URL("/"))
			if err := c.Do(req, resp); err != nil || string(resp.Header.Protocol()) != tc.want {
				t.Errorf("%s with %v: %v, %s", name, tc.protocols, err, resp.Header.Protocol())
			}
			c.CloseIdleConnections()
		}
	}
}

// A failed dial is the error of all who wait for it, and concerns nobody later.
func TestClientHTTP2DialFails(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, mirrorRequest)
	refused := errors.New("refused")
	begun, release := make(chan struct{}), make(chan struct{})
	var dials atomic.Int64
	c := &sluice.HostClient{Addr: r.Addr, HTTP2: sluice.HTTP2Only, Dial: func(addr string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			close(begun)
			<-release
			return nil, refused
		}
		return net.Dial("tcp", addr)
	}}
	defer c.CloseIdleConnections()
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- c.Do(harness.NewCall("GET", r.URL("/"))) }()
	}
	<-begun
	eventually(t, "the others wait", func() bool { return c.PendingRequests() == cap(errs) })
	time.Sleep(5 * time.Millisecond) // they are about to
	close(release)
	failed := 0
	for range cap(errs) {
		if err := <-errs; errors.Is(err, refused) {
			failed++
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed == 0 {
		t.Error("no request has failed")
	}
	if err := c.Do(harness.NewCall("GET", r.URL("/"))); err != nil {
		t.Error(err)
	}
}

// TestClientHTTP2Trace: hooks are called, with the connection and whether it was used.
func TestClientHTTP2Trace(t *testing.T) {
	r := harness.HTTP2Servers[0].Start(t, mirrorRequest)
	c := r.Host(sluice.HTTP2Auto)
	defer c.CloseIdleConnections()
	var calls []string
	c.Trace = &sluice.ClientTrace{
		GetConn: func(string) { calls = append(calls, "get") },
		GotConn: func(info sluice.GotConnInfo) {
			calls = append(calls, fmt.Sprintf("got %v %v", info.Conn.RemoteAddr().String() == r.Addr, info.IsReused))
		},
		TLSDone:      func(state tls.ConnectionState, _ error) { calls = append(calls, state.NegotiatedProtocol) },
		WroteRequest: func(err error) { calls = append(calls, fmt.Sprint("wrote ", err)) },
		FirstByte:    func() { calls = append(calls, "first") },
	}
	for range 2 {
		if err := c.Do(harness.NewCall("GET", r.URL("/"))); err != nil {
			t.Fatal(err)
		}
	}
	const want = "get, h2, got true false, wrote <nil>, first, get, got true true, wrote <nil>, first"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestClientHTTP2AllocatesNothing: a GET in steady state, with everything that the caller
// keeps.
func TestClientHTTP2AllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	peer := newFramePeer(t, func(p *framePeer) {
		// A server that allocates nothing itself: it answers each HEADERS frame with the
		// same bytes, but for the number of the stream.
		answer := []byte{0, 0, 1, 1, 5, 0, 0, 0, 0, 0x88}
		head := make([]byte, 9)
		payload := make([]byte, 1<<14)
		for {
			if _, err := io.ReadFull(p.conn.Br, head); err != nil {
				return
			}
			size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
			if _, err := io.ReadFull(p.conn.Br, payload[:size]); err != nil {
				return
			}
			switch {
			case head[3] == 4 && head[4] == 0:
				_ = p.WriteSettingsAck()
			case head[3] == 1:
				copy(answer[5:9], head[5:9])
				_, _ = p.conn.Write(answer)
			}
		}
	})
	c := peer.Host()
	c.HTTP2 = sluice.HTTP2Only
	defer c.CloseIdleConnections()
	req, resp := harness.NewCall("GET", peer.URL("/"))
	do := func() {
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		do()
	}
	if n := testing.AllocsPerRun(1000, do); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHTTP2BodyEnds: how a streamed body ends, and whether the connection stays open.
func TestHTTP2BodyEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		end   func(p *framePeer, stream uint32)
		limit int
		read  time.Duration
		body  string
		err   error
		open  int // connections afterwards
	}{
		{"whole", func(p *framePeer, s uint32) { _ = p.WriteData(s, true, []byte("56")) }, 0, 0, "123456", nil, 1},
		{"at the limit", func(p *framePeer, s uint32) { _ = p.WriteData(s, true, []byte("56")) }, 6, time.Hour, "123456", nil, 1},
		{"above the limit", func(p *framePeer, s uint32) { _ = p.WriteData(s, true, []byte("567")) }, 6, 0, "123456", sluice.ErrBodyTooLarge, 1},
		{"far above the limit", func(*framePeer, uint32) {}, 2, 0, "12", sluice.ErrBodyTooLarge, 1},
		{"silence", func(*framePeer, uint32) {}, 0, 20 * time.Millisecond, "1234", sluice.ErrTimeout, 1},
		{"lost", func(p *framePeer, _ uint32) { _ = p.conn.Conn.(*net.TCPConn).CloseWrite() }, 0, 0, "1234", io.ErrUnexpectedEOF, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer := newFramePeer(t, func(p *framePeer) {
				for stream, _ := p.request(); stream != 0; stream, _ = p.request() {
					p.part(stream, "1234")
					tc.end(p, stream)
				}
			})
			c := peer.Host()
			c.HTTP2, c.MaxResponseBodySize, c.ReadTimeout = sluice.HTTP2Only, tc.limit, tc.read
			req, resp := harness.NewCall("POST", peer.URL("/"))
			sent := &closable{Reader: strings.NewReader("sent")}
			req.SetBodyStream(sent, 4)
			resp.StreamBody = true
			if err := c.Do(req, resp); err != nil || req.IsBodyStream() || resp.Header.ContentLength() != -1 {
				t.Fatal(err)
			}
			if resp.RemoteAddr().String() != peer.Addr() {
				t.Errorf("from %v", resp.RemoteAddr())
			}
			stream := resp.BodyStream()
			if n, err := stream.Read(nil); n != 0 || err != nil {
				t.Errorf("an empty read: %d, %v", n, err)
			}
			if body, err := io.ReadAll(stream); string(body) != tc.body || !errors.Is(err, tc.err) {
				t.Errorf("%q, %v; want %q, %v", body, err, tc.body, tc.err)
			}
			if _, err := stream.Read(make([]byte, 1)); tc.err != nil && !errors.Is(err, tc.err) || tc.err == nil && err != io.EOF {
				t.Errorf("a second time: %v", err)
			}
			if sent.closes == 0 {
				t.Error("the request's stream is open")
			}
			checkPool(t, c, tc.open, tc.open)
			if err := resp.CloseBodyStream(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Read(make([]byte, 1)); err != body.ErrClosed {
				t.Errorf("after Close: %v", err)
			}
			checkPool(t, c, tc.open, tc.open)
			c.CloseIdleConnections()
		})
	}
}

// TestHTTP2BodyCloseDuringRead: Close makes a waiting Read return, and resets the stream.
func TestHTTP2BodyCloseDuringRead(t *testing.T) {
	peer := newFramePeer(t, func(p *framePeer) {
		for stream, _ := p.request(); stream != 0; stream, _ = p.request() {
			p.part(stream, "1234")
		}
	})
	c := peer.Host()
	c.HTTP2 = sluice.HTTP2Only
	req, resp := harness.NewCall("GET", peer.URL("/"))
	resp.StreamBody = true
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	stream := resp.BodyStream()
	if _, err := io.ReadFull(stream, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := stream.Read(make([]byte, 1))
		read <- err
	}()
	eventually(t, "a Read waits", func() bool { return stackShows("streamCall).ReadBody", "client/http2") || len(read) > 0 })
	if err := resp.CloseBodyStream(); err != nil {
		t.Error(err)
	}
	within(t, "Read", func() {
		if err := <-read; err != body.ErrClosed {
			t.Errorf("Read: %v", err)
		}
	})
	checkPool(t, c, 1, 1)
	c.CloseIdleConnections()
}

// TestHTTP2InvalidRequest: a request that cannot be written gives its place back, and is
// not sent again.
func TestHTTP2InvalidRequest(t *testing.T) {
	peer := newFramePeer(t, func(p *framePeer) { p.request() })
	c := peer.Host()
	c.HTTP2 = sluice.HTTP2Only
	req, resp := harness.NewCall("GET", "http://a b/")
	retry, err := sluice.DefaultTransport.RoundTrip(c, req, resp)
	if invalid := sluice.InvalidHostError(""); retry || !errors.As(err, &invalid) {
		t.Errorf("retry %v, %v", retry, err)
	}
	checkPool(t, c, 1, 1)
	c.CloseIdleConnections()
}
