package sse

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice"
)

// TestHTTP2: clients of net/http get all events, heartbeats, and the end.
func TestHTTP2(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{History: 5000, Heartbeat: 20 * time.Millisecond})
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: &protocols}
		defer transport.CloseIdleConnections()
		get := func(path string) *http.Response {
			resp, err := (&http.Client{Transport: transport}).Get("http://" + f.addr + path)
			if err != nil || resp.ProtoMajor != 2 || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatal(resp, err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			return resp
		}
		all := []*http.Response{get("/a,b"), get("/a,b"), get("/a,b")}
		f.joined("b", 3)
		for i := range 2000 {
			f.publish([]string{"a", "b", "c"}[i%3], fmt.Sprint(i))
		}
		readers := make([]*Reader, len(all))
		for n, resp := range all {
			readers[n] = NewReader(resp.Body)
			for i := range 2000 {
				if i%3 == 2 {
					continue
				}
				if e, err := readers[n].Next(); err != nil || string(e.Data) != fmt.Sprint(i) {
					t.Fatalf("event %q, %v, want %d", e.Data, err, i)
				}
			}
		}
		all[0].Body.Close()
		f.joined("a", 2)
		beats := bufio.NewReader(get("/quiet").Body)
		for n := 0; n < 3; {
			line, err := beats.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == ":\n" {
				n++
			}
		}
		done := make(chan error, 1)
		go func() { done <- f.server.Shutdown() }()
		for _, r := range readers[1:] {
			if e, err := r.Next(); err != io.EOF || r.Retry() < time.Second || r.Retry() > 2*time.Second {
				t.Errorf("%q, %v, retry %v, want the end", e.Data, err, r.Retry())
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestHTTP2OverTLS: a connection whose protocol ALPN has chosen.
func TestHTTP2OverTLS(t *testing.T) {
	t.Parallel()
	onEnginesTLS(t, func(t *testing.T, s *sluice.Server) {
		h, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Handler = func(ctx *sluice.RequestCtx) { _ = h.Serve(ctx, "a") }
		cert, key, err := sluice.GenerateTestCertificate("localhost")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.ServeTLSEmbed(ln, cert, key) }()
		defer func() { _ = s.Shutdown() }()
		conn, err := tls.Dial("tcp4", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream := newWire(t, conn, 2000).open("", "")
		eventually(t, "the stream begins", func() bool { return h.Len("a") == 1 })
		for i := range 100 {
			if err := h.Publish("a", Event{Data: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			stream.want(fmt.Sprint(i))
		}
	})
}

// TestHTTP2Reconnect: what a client has missed comes first, and fits into its window.
func TestHTTP2Reconnect(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{Snapshot: func(_ *sluice.RequestCtx, topics []string) ([]Event, error) {
			if topics[0] == "broken" {
				return nil, errors.New("no snapshot")
			}
			return []Event{{Name: "state", Data: []byte("of " + topics[0])}}, nil
		}})
		w := f.wire(3000)
		s := w.open("a", "")
		s.want("of a")
		f.joined("a", 1)
		f.publish("a", "first")
		s.want("first")
		s.Reset(http2.ErrCodeCancel)
		f.joined("a", 0)
		for i := range 1000 {
			f.publish("a", fmt.Sprint(i))
		}
		long := strings.Repeat("long ", 10000)
		f.publish("a", long)
		again, all := w.open("a", s.LastID()), w.open("b,a", s.LastID())
		for i := range 1000 {
			again.want(fmt.Sprint(i))
			all.want(fmt.Sprint(i))
		}
		again.want(long)
		all.want(long)
		f.publish("a", "now")
		again.want("now")
		all.want("now")
		broken := w.open("broken", "")
		_, err := broken.Next()
		if status, _ := broken.Status(); err != io.EOF || status != "503" {
			t.Errorf("status %q, %v", status, err)
		}
	})
}

// TestHTTP2Slow: a stream that gets no credit holds nothing but its place, and the others of
// its connection go on. It ends when its next event is gone.
func TestHTTP2Slow(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		closed := make(chan error, 1)
		f := start(t, e, Options{History: 100, OnClose: func(_ []string, err error) { closed <- err }})
		w := f.wire(2000)
		slow, fast := w.open("a", ""), w.open("b", "")
		f.joined("a", 1)
		f.joined("b", 1)
		slow.SetMean(true)
		for i := range 1000 {
			f.publish("a", strings.Repeat("x", 16<<10))
			if i%100 == 0 {
				f.publish("b", "go on")
				fast.want("go on")
			}
		}
		if f.joined("a", 1); len(closed) > 0 {
			t.Errorf("the stream has ended: %v", <-closed)
		}
		slow.SetMean(false)
		slow.Credit(32 << 10)
		for {
			if _, err := slow.Next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if err := <-closed; err != ErrSlow {
			t.Errorf("OnClose got %v", err)
		}
	})
}

// TestHTTP2Cancel: RST_STREAM and the loss of the connection end streams at once.
func TestHTTP2Cancel(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		closed := make(chan error, 10)
		f := start(t, e, Options{OnClose: func(_ []string, err error) { closed <- err }})
		w := f.wire(2000)
		first, second := w.open("a", ""), w.open("a", "")
		w.open("a", "")
		w.open("b", "")
		f.joined("a", 3)
		first.Reset(http2.ErrCodeCancel)
		if err := <-closed; err != io.EOF {
			t.Errorf("after CANCEL, OnClose got %v", err)
		}
		second.Reset(http2.ErrCodeInternal)
		if err := <-closed; err == nil || err == io.EOF {
			t.Errorf("after INTERNAL_ERROR, OnClose got %v", err)
		}
		f.joined("a", 1)
		f.joined("b", 1)
		w.Close()
		for range 2 {
			if err := <-closed; err == nil {
				t.Error("OnClose gets no error")
			}
		}
		if s := f.hub.Stats(); s.Streams != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestHTTP2Stay: the streams end one by one when another process replaces theirs, also
// those of a Hub whose other streams move.
func TestHTTP2Stay(t *testing.T) {
	for _, name := range []string{"", "named"} {
		onEngines(t, func(t *testing.T, e sluice.Engine) {
			closed := make(chan error, 10)
			f := start(t, e, Options{Name: name, RestartSpread: 50 * time.Millisecond, OnClose: func(_ []string, err error) { closed <- err }})
			w := f.wire(2000)
			var streams []*wireStream
			for range 10 {
				streams = append(streams, w.open("a", ""))
			}
			f.joined("a", len(streams))
			if n := f.server.Control().HandOver(-1, func(net.Conn, sluice.Parcel) {}); n != 0 {
				t.Errorf("%d connections have moved", n)
			}
			f.server.Control().CloseOnNextResponse()
			delays := map[time.Duration]bool{}
			for _, s := range streams {
				s.wantEnd()
				delays[s.Retry()] = true
				if s.Retry() < time.Second || s.Retry() > 2*time.Second {
					t.Errorf("retry %v", s.Retry())
				}
			}
			if len(delays) < 2 {
				t.Errorf("all connect again after %v", delays)
			}
			for range streams {
				if err := <-closed; err != ErrGoingAway {
					t.Errorf("OnClose got %v", err)
				}
			}
		})
	}
}

// TestHTTP2Goroutines: streams hold none.
func TestHTTP2Goroutines(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{})
		w := f.wire(2000)
		w.open("a", "")
		f.joined("a", 1)
		before := runtime.NumGoroutine()
		for range 200 {
			w.open("a", "")
		}
		f.joined("a", 201)
		eventually(t, "the goroutines of the handlers end", func() bool { return runtime.NumGoroutine() < before+100 })
	})
}

// TestHTTP2Shutdown: a client that takes nothing does not keep the server from ending.
func TestHTTP2Shutdown(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{WriteTimeout: 100 * time.Millisecond})
		s := f.wire(0).open("a", "")
		f.joined("a", 1)
		f.publish("a", "x")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.server.ShutdownWithContext(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.Next(); err == nil {
			t.Error("an event has come without a window")
		}
	})
}
