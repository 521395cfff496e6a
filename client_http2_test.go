package sluice

import (
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
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

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

// TestHTTP2HeadReceived: what becomes of the body of each response.
func TestHTTP2HeadReceived(t *testing.T) {
	const unknown = -1 // the length is not announced
	for _, tc := range []struct {
		name   string
		status int
		length int64
		isLast bool
		set    func(x *streamCall)
		form   streamForm
		err    error
	}{
		{"interim", 199, unknown, false, nil, noFinalHead, nil},
		{"final", 200, unknown, false, nil, bodyKept, nil},
		{"alone", 200, unknown, true, nil, headAlone, nil},
		{"HEAD", 200, 5, false, func(x *streamCall) { x.params.IsHead = true }, bodyDropped, nil},
		{"204", 204, unknown, false, nil, bodyDropped, nil},
		{"304 with a length", 304, 5, false, func(x *streamCall) { x.resp.StreamBody = true }, bodyDropped, nil},
		{"skipped", 200, http1client.MaxDropped, false, func(x *streamCall) { x.resp.SkipBody = true }, bodyDropped, nil},
		{"skipped, too long", 200, http1client.MaxDropped + 1, false, func(x *streamCall) { x.resp.SkipBody = true }, bodyDropped, errUnwantedBody},
		{"skipped, of any length", 200, unknown, false, func(x *streamCall) { x.resp.SkipBody = true }, bodyDropped, errUnwantedBody},
		{"skipped, empty", 200, 0, false, func(x *streamCall) { x.resp.SkipBody = true }, bodyDropped, nil},
		{"stream", 200, unknown, false, func(x *streamCall) { x.resp.StreamBody = true }, bodyStreamed, nil},
		{"unwanted stream", 200, http1client.MaxDropped, false, func(x *streamCall) { x.resp.StreamBody, x.call.wants = true, wantsNone }, bodyDropped, nil},
		{"unwanted, in memory", 200, unknown, false, func(x *streamCall) { x.call.wants = wantsNone }, bodyKept, nil},
		{"wanted in memory", 200, unknown, false, func(x *streamCall) { x.resp.StreamBody, x.call.wants = true, wantsBytes }, bodyKept, nil},
		{"stream of a redirect that is followed", 301, 5, false, func(x *streamCall) {
			x.resp.StreamBody, x.call.follows = true, true
			x.resp.Header.Set("Location", "/")
		}, bodyDropped, nil},
		{"at the limit", 200, 10, false, func(x *streamCall) { x.c.MaxResponseBodySize = 10 }, bodyKept, nil},
		{"above the limit", 200, 11, false, func(x *streamCall) { x.c.MaxResponseBodySize = 10 }, bodyDropped, ErrBodyTooLarge},
		{"too long", 200, math.MaxInt64, false, nil, bodyDropped, ErrBodyTooLarge},
		{"accepted CONNECT", 299, unknown, true, func(x *streamCall) { x.protocol = []byte("p") }, bodyStreamed, nil},
		{"refused CONNECT", 300, unknown, true, func(x *streamCall) { x.protocol = []byte("p") }, headAlone, nil},
		{"refused CONNECT with a body", 300, unknown, false, func(x *streamCall) { x.protocol = []byte("p") }, bodyStreamed, nil},
	} {
		x := &streamCall{carrier: (*http2Call)(nil), c: &HostClient{}, call: new(clientCall), req: new(Request), resp: new(Response)}
		if tc.set != nil {
			tc.set(x)
		}
		var head fieldlist.Head
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
	x := &streamCall{carrier: (*attachedCall)(nil), c: &HostClient{MaxResponseBodySize: -1}, call: new(clientCall), req: new(Request), resp: new(Response)}
	var head fieldlist.Head
	head.StatusCode, head.ContentLength = 200, 1
	if _, err := x.HeadReceived(&head, false); err != nil || x.resp.limit != 0 {
		t.Errorf("a negative limit: %v, %d", err, x.resp.limit)
	}
	if got := string(x.resp.Header.Protocol()); got != "HTTP/3.0" {
		t.Errorf("protocol %s", got)
	}
}

// TestHTTP2BodyReceived: bodies are kept up to the limit, and dropped up to http1client.MaxDropped.
func TestHTTP2BodyReceived(t *testing.T) {
	x := &streamCall{form: bodyDropped, resp: new(Response)}
	for _, step := range []struct {
		n   int
		err error
	}{{1, nil}, {http1client.MaxDropped - 1, nil}, {1, errUnwantedBody}} {
		if err := x.BodyReceived(make([]byte, step.n)); err != step.err || len(x.resp.buffered()) != 0 {
			t.Errorf("dropped %d: %v, %d bytes", x.unwanted, err, len(x.resp.buffered()))
		}
	}
	x = &streamCall{form: bodyKept, resp: new(Response)}
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
		{"source", streams.ErrSourceLength, func(x *http2Call) { x.source.Count, x.params.Length = 3, 5 }, io.ErrUnexpectedEOF, false},
	} {
		x := &http2Call{member: pool.NewMember(&http2Peer{}, 1)}
		x.c, x.call, x.req = &HostClient{}, new(clientCall), new(Request)
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
	x.content, x.late, x.form, x.unwanted = buf.Get(1), new(RequestHeader), bodyStreamed, 1
	x.framing, x.source = message.Framing{Length: 1}, body.Upload{Count: 1}
	s := &x.params
	s.Request, s.Content, s.Source, s.Context = x, []byte("x"), strings.NewReader(""), t.Context()
	s.Length, s.HasTrailer, s.IsHead, s.WantsInterims = 1, true, true, true
	x.carrier, x.nc, x.stream.Params = x, &net.TCPConn{}, x.params
	x.trailers.Add(0, []byte("x"), []byte("y"))
	releaseHTTP2Call(x)
	if x.c != nil || x.call != nil || x.req != nil || x.resp != nil || x.member != nil || x.content != nil || x.late != nil || x.form != noFinalHead ||
		x.unwanted != 0 || x.framing != (message.Framing{}) || x.source.Count != 0 || x.trailers.Len() != 0 || x.carrier != nil || x.nc != nil {
		t.Errorf("the call keeps %+v", x)
	}
	for _, s := range []*streams.Params{&x.params, &x.stream.Params} {
		if s.Request != nil || s.Content != nil || s.Source != nil || s.Context != nil || s.Length != 0 || s.HasTrailer || s.IsHead || s.WantsInterims {
			t.Errorf("the stream keeps %+v", s)
		}
	}
}
