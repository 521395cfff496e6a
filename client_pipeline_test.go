package sluice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"sync"
	"testing"
	"time"
)

// TestPipelineClosesSpare: CloseIdleConnections closes a connection that was not used.
func TestPipelineClosesSpare(t *testing.T) {
	var c PipelineClient
	spare := &stubConn{}
	c.spare.Store(newClientConn(spare, "h:80"))
	c.CloseIdleConnections()
	if c.spare.Load() != nil || fmt.Sprint(spare.told) != "[close]" {
		t.Errorf("the spare connection: %q", spare.told)
	}
}

// TestPipelineSpare: a connection whose server has chosen HTTP/1.1 is used next, without
// its deadlines; if they stay, another one is dialed.
func TestPipelineSpare(t *testing.T) {
	for _, limitErr := range []error{nil, errStub} {
		dialed := &stubConn{}
		c := &PipelineClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return dialed, nil }}
		c.once.Do(c.prepare)
		spare := &stubConn{limitErr: limitErr}
		cc := newClientConn(spare, "h:80")
		cc.wire.NoteDeadline()
		c.spare.Store(cc)
		first, err := c.dial()
		if isSpare := first == net.Conn(spare); isSpare != (limitErr == nil) || err != nil {
			t.Errorf("%v: the spare one %v, %v", limitErr, isSpare, err)
		}
		if want := map[bool]string{true: "[both none]", false: "[both none close]"}[limitErr == nil]; fmt.Sprint(spare.told) != want {
			t.Errorf("%v: %q, want %s", limitErr, spare.told, want)
		}
		if second, err := c.dial(); second != net.Conn(dialed) || err != nil {
			t.Errorf("%v: then %v, %v", limitErr, second, err)
		}
	}
	if _, err := (&PipelineClient{Addr: " , "}).dial(); err != errNoAddr {
		t.Errorf("without an address: %v", err)
	}
}

// TestPipelineWorkForgets: a work in the pool has nothing of the last request but room.
func TestPipelineWorkForgets(t *testing.T) {
	var c PipelineClient
	for _, size := range []int{1, maxPooledBytes, maxPooledBytes + 1} {
		w := c.works.acquire(&c)
		w.into, w.Err, w.Out = &w.resp, errStub, make([]byte, size)
		w.resp.SetBodyString("body")
		c.works.release(w)
		if w.into != nil || w.Err != nil || len(w.Out) != 0 || (cap(w.Out) == size) != (size <= maxPooledBytes) || len(w.resp.Body()) != 0 {
			t.Errorf("%d bytes: %v, %v, %d of %d, %q", size, w.into, w.Err, len(w.Out), cap(w.Out), w.resp.Body())
		}
		w.into = new(Response)
		w.into.SetBodyString("the caller's")
		into := w.into
		if c.works.release(w); string(into.Body()) != "the caller's" {
			t.Errorf("the caller has %q", into.Body())
		}
	}
	var invalid InvalidHostError
	req, _ := newCall("GET", "http://a b/")
	if err := c.Do(req, nil); !errors.As(err, &invalid) {
		t.Errorf("an invalid host: %v", err)
	}
}

// Each field that PipelineClient has in common with HostClient reaches its own one.
func TestPipelineFieldsReachHost(t *testing.T) {
	c := new(PipelineClient)
	from := reflect.ValueOf(c).Elem()
	not := map[string]bool{"MaxConns": true, "MaxPendingRequests": true, "MaxBatchDelay": true, "WriteBufferSize": true, "Logger": true}
	for i := range from.NumField() {
		if field := from.Type().Field(i); field.IsExported() && !not[field.Name] {
			fill(t, from.Field(i))
		}
	}
	c.prepare()
	to := reflect.ValueOf(&c.host).Elem()
	for i := range from.NumField() {
		field := from.Type().Field(i)
		if !field.IsExported() || not[field.Name] {
			continue
		}
		got, want := to.FieldByName(field.Name), from.Field(i)
		if !got.IsValid() || want.Kind() == reflect.Func && got.Pointer() != want.Pointer() || want.Kind() != reflect.Func && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s is %v, want %v", field.Name, got, want)
		}
	}
	if h := &c.host; h.MaxHTTP2Conns != 1 || h.http2.maxStreams != 1024 || h.MaxConnWaitTimeout != math.MaxInt64 {
		t.Errorf("%d connections of %d streams, waits %v", h.MaxHTTP2Conns, h.http2.maxStreams, h.MaxConnWaitTimeout)
	}
	c = &PipelineClient{MaxConns: 3, MaxPendingRequests: 5}
	if c.prepare(); c.host.MaxHTTP2Conns != 3 || c.host.http2.maxStreams != 5 {
		t.Errorf("%d connections of %d streams", c.host.MaxHTTP2Conns, c.host.http2.maxStreams)
	}
	cc := newClientConn(&stubConn{}, "h:80")
	if c.host.http2.passHTTP1(cc); c.spare.Load() != cc {
		t.Error("the connection that speaks HTTP/1.1 is lost")
	}
}

// TestPipelineEncode: where an answer is read to, and what the connection knows of a
// request.
func TestPipelineEncode(t *testing.T) {
	for _, tc := range []struct {
		method                            string
		set                               func(req *Request, resp *Response)
		isDirect, repeatable, isLast, isH bool
	}{
		{"GET", nil, true, true, false, false},
		{"POST", nil, true, false, false, false},
		{"HEAD", nil, true, true, false, true},
		{"CONNECT", nil, true, false, true, false},
		{"POST", func(req *Request, _ *Response) { req.SetConnectionClose() }, true, false, true, false},
		{"POST", func(req *Request, _ *Response) { req.call.Allow(time.Hour) }, false, false, false, false},
		{"POST", func(req *Request, _ *Response) { req.call.Context = t.Context() }, false, false, false, false},
		{"POST", func(req *Request, _ *Response) { req.call.Context = context.Background() }, true, false, false, false},
		{"POST", func(_ *Request, resp *Response) { resp.SkipBody = true }, false, false, false, false},
		{"POST", func(_ *Request, resp *Response) { resp.StreamBody = true }, false, false, false, false},
	} {
		c := &PipelineClient{Addr: "h:80"}
		c.once.Do(c.prepare)
		req, resp := newCall(tc.method, "http://h:80/")
		req.call = new(clientCall)
		resp.SetBodyString("old")
		if tc.set != nil {
			tc.set(req, resp)
		}
		skips, streams := resp.SkipBody, resp.StreamBody
		w, err := c.encode(req.call, req, resp)
		if err != nil {
			t.Fatal(err)
		}
		if (w.into == resp) != tc.isDirect || !tc.isDirect && w.into != &w.resp || len(resp.Body()) != 0 {
			t.Errorf("%s %s: into the caller's %v, want %v; %q", tc.method, w.Out, w.into == resp, tc.isDirect, resp.Body())
		}
		if w.IsRepeatable != tc.repeatable || w.IsLast != tc.isLast || w.isHead != tc.isH || w.isTunnel != (tc.method == "CONNECT") {
			t.Errorf("%s: repeatable %v, last %v, HEAD %v, tunnel %v", tc.method, w.IsRepeatable, w.IsLast, w.isHead, w.isTunnel)
		}
		if !tc.isDirect && (resp.SkipBody != skips || resp.StreamBody != streams) {
			t.Errorf("%s: skips %v, streams %v", tc.method, resp.SkipBody, resp.StreamBody)
		}
	}
}

// recordingLogger counts messages.
type recordingLogger struct {
	mu    sync.Mutex
	lines []string
}

func (l *recordingLogger) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *recordingLogger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// The connection to a server that has chosen HTTP/1.1 is there before others learn of the
// choice, or they would open another one.
func TestHTTP2FallsBackOnce(t *testing.T) {
	r := http2Servers[1].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, IsTLS: true, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Auto}
	c.once.Do(c.prepare)
	pass := c.host.http2.passHTTP1
	c.host.http2.passHTTP1 = func(cc *clientConn) {
		if c.host.http2.isHTTP1.Load() {
			t.Error("others have learned of it")
		}
		pass(cc)
	}
	hc := r.host(HTTP2Auto)
	hc.MaxConns, hc.MaxConnWaitTimeout = 1, clientPatience
	for name, do := range map[string]func(req *Request, resp *Response) error{"PipelineClient": c.Do, "HostClient": hc.Do} {
		r.dials.Store(0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := do(newCall("GET", r.url("/"))); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%s: %d dials, want 1", name, n)
		}
	}
	c.CloseIdleConnections()
	hc.CloseIdleConnections()
}

// A connection whose server has chosen HTTP/1.1 is not used if it has ended meanwhile, and
// closed if no call uses it.
func TestPipelineHTTP2Spare(t *testing.T) {
	r := http2Servers[1].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, IsTLS: true, TLSConfig: r.client, Dial: r.dial, HTTP2: HTTP2Auto}
	c.once.Do(c.prepare)
	c.host.http2.isHTTP1.Store(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for range 2 {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if other, err := ln.Accept(); err != nil || other.Close() != nil {
			t.Fatal(err)
		}
		cc := newClientConn(nc, r.addr)
		eventually(t, "the connection ends", func() bool { return !cc.wire.IsQuiet(false) })
		c.host.http2.passHTTP1(cc)
		if r.dials.Load() == 0 {
			if err := c.Do(newCall("POST", r.url("/"))); err != nil || r.dials.Load() != 1 {
				t.Errorf("%v, %d dials, want 1", err, r.dials.Load())
			}
		}
		c.CloseIdleConnections()
		if _, err := nc.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the connection was not closed: %v", err)
		}
	}
}
