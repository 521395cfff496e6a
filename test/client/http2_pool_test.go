package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// closable counts how often it is closed.
type closable struct {
	io.Reader
	closes int
}

func (c *closable) Close() error { c.closes++; return errStub }

// TestHTTP2PoolWaits: who waits for a stream, and for how long.
func TestHTTP2PoolWaits(t *testing.T) {
	arrived := make(chan uint32, 4)
	peer := newFramePeer(t, func(p *framePeer) {
		for stream, path := p.request(); stream != 0; stream, path = p.request() {
			if path == "/held" {
				arrived <- stream
			} else {
				p.answer(stream, "200", "ok")
			}
		}
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	c := peer.Host()
	c.HTTP2, c.MaxHTTP2Conns = sluice.HTTP2Only, 1
	if err := c.Do(harness.NewCall("GET", peer.URL("/"))); err != nil { // the server's settings arrive
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() {
		req, resp := harness.NewCall("GET", peer.URL("/held"))
		held <- c.DoContext(ctx, req, resp)
	}()
	<-arrived
	if err := c.Do(harness.NewCall("GET", peer.URL("/"))); err != sluice.ErrNoFreeConns {
		t.Errorf("without a limit: %v", err)
	}
	// A call with a context waits until it ends.
	waiting, end := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		req, resp := harness.NewCall("GET", peer.URL("/"))
		waited <- c.DoContext(waiting, req, resp)
	}()
	eventually(t, "a call waits", func() bool { return stackShows("Shared", "Wait") || len(waited) > 0 })
	end()
	var phase *sluice.PhaseError
	if err := <-waited; !errors.As(err, &phase) || phase.Phase != sluice.PhaseWait {
		t.Errorf("with a context: %v", err)
	}
	cancel()
	<-held
	c.CloseIdleConnections()
}

// TestHTTP2DialPanics: the permission to open a connection is passed on.
func TestHTTP2DialPanics(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, mirrorRequest)
	c := r.Host(sluice.HTTP2Only)
	c.MaxHTTP2Conns = 1
	c.Dial = func(addr string) (net.Conn, error) {
		if r.Dials.Add(1) == 1 {
			panic(errStub)
		}
		return net.Dial("tcp", addr)
	}
	defer c.CloseIdleConnections()
	func() {
		defer func() {
			if v := recover(); v != errStub {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = c.Do(harness.NewCall("GET", r.URL("/")))
	}()
	checkPool(t, c, 0, 0)
	req, resp := harness.NewCall("GET", r.URL("/"))
	if err := c.DoTimeout(req, resp, clientPatience); err != nil {
		t.Error(err)
	}
	checkPool(t, c, 1, 1)
}

// TestHTTP2DialFails: those who wait get the error of the call that opens the connection. If that
// call has ended, one of them opens another.
func TestHTTP2DialFails(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, mirrorRequest)
	for _, ends := range []bool{false, true} {
		c := r.Host(sluice.HTTP2Only)
		c.MaxHTTP2Conns = 1
		dialing, fail, dials := make(chan struct{}), make(chan struct{}), atomic.Int32{}
		c.Dial = func(addr string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				return net.Dial("tcp", addr)
			}
			close(dialing)
			<-fail
			return nil, errStub
		}
		do := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() {
				req, resp := harness.NewCall("GET", r.URL("/"))
				done <- c.DoContext(ctx, req, resp)
			}()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := do(ctx)
		<-dialing
		second := do(t.Context())
		eventually(t, "a call waits", func() bool { return stackShows("Shared", "Wait") || len(second) > 0 })
		var want [2]error
		if ends {
			cancel()
			want[0] = context.Canceled
		} else {
			close(fail)
			want = [2]error{errStub, errStub}
		}
		for i, done := range []chan error{first, second} {
			if err := <-done; !errors.Is(err, want[i]) {
				t.Errorf("ends %v: call %d: %v", ends, i, err)
			}
		}
		if n := dials.Load(); n == 1 == ends {
			t.Errorf("ends %v: %d dials", ends, n)
		}
		if ends {
			close(fail)
		}
		cancel()
		c.CloseIdleConnections()
	}
}

// misdirecting is a script that answers 421 on the first connection.
func misdirecting(p *framePeer) {
	for stream, _ := p.request(); stream != 0; stream, _ = p.request() {
		if p.number == 1 {
			p.answer(stream, "421", "elsewhere")
		} else {
			p.answer(stream, "200", "here")
		}
	}
}

// TestHTTP2Misdirected: without a second connection, the answer is 421. It is asked for
// once per request.
func TestHTTP2Misdirected(t *testing.T) {
	for _, tc := range []struct {
		name   string
		dial   func(n int64) error
		most   int
		status int
		dials  int64
		open   int
	}{
		{"second connection", nil, 2, 200, 2, 1},
		{"no room", nil, 1, 421, 1, 1}, // if the body is a stream; otherwise the first connection makes room
		{"no dial", func(n int64) error {
			if n == 2 {
				return errStub
			}
			return nil
		}, 2, 421, 2, 1},
		{"a dial panics", func(n int64) error {
			if n == 2 {
				panic(errStub)
			}
			return nil
		}, 2, 0, 2, 1},
	} {
		for _, streams := range []bool{false, true} {
			if tc.most == 1 && !streams {
				tc.status, tc.dials, tc.open = 200, 2, 0
			} else if tc.most == 1 {
				tc.status, tc.dials, tc.open = 421, 1, 1
			}
			t.Run(fmt.Sprint(tc.name, " ", streams), func(t *testing.T) {
				peer := newFramePeer(t, misdirecting)
				var dials atomic.Int64
				c := peer.Host()
				c.HTTP2, c.MaxHTTP2Conns = sluice.HTTP2Only, tc.most
				c.Dial = func(addr string) (net.Conn, error) {
					n := dials.Add(1)
					if tc.dial != nil {
						if err := tc.dial(n); err != nil {
							return nil, err
						}
					}
					return net.Dial("tcp", addr)
				}
				req, resp := harness.NewCall("POST", peer.URL("/"))
				resp.StreamBody = streams
				func() {
					defer func() {
						if v := recover(); (v != nil) != (tc.status == 0) {
							t.Errorf("recovered %v", v)
						}
					}()
					if err := c.Do(req, resp); err != nil || resp.StatusCode() != tc.status {
						t.Errorf("%v, status %d, want %d", err, resp.StatusCode(), tc.status)
					}
				}()
				if body := string(resp.Body()); body != map[int]string{200: "here", 421: "elsewhere"}[tc.status] && tc.status != 0 {
					t.Errorf("body %q", body)
				}
				_ = resp.CloseBodyStream()
				if dials.Load() != tc.dials {
					t.Errorf("%d dials, want %d", dials.Load(), tc.dials)
				}
				checkPool(t, c, tc.open, tc.open)
				c.CloseIdleConnections()
				checkPool(t, c, 0, 0)
			})
		}
	}
}

// part sends the head of a response and the beginning of its body.
func (p *framePeer) part(stream uint32, body string) {
	p.block.Reset()
	_ = p.heads.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true})
	_ = p.WriteData(stream, false, []byte(body))
}

// TestPrewarmHTTP2Fails: the error is the first one, or that of the context.
func TestPrewarmHTTP2Fails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &sluice.HostClient{Addr: "h:80", HTTP2: sluice.HTTP2Only, Dial: func(string) (net.Conn, error) { return nil, errStub }}
	if err := c.Prewarm(ctx, 1); !errors.Is(err, errStub) {
		t.Errorf("error %v", err)
	}
	c.Dial = func(string) (net.Conn, error) { cancel(); return nil, errStub }
	var phase *sluice.PhaseError
	if err := c.Prewarm(ctx, 1); !errors.As(err, &phase) || phase.Phase != sluice.PhaseDial {
		t.Errorf("error %v", err)
	}
	checkPool(t, c, 0, 0)
}
