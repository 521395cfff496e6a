package sluice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// TestCallsTime: what a call whose time has run out says.
func TestCallsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clientCall
		c.Allow(time.Second)
		if c.err() != nil || c.explain(io.EOF) != io.EOF || c.explain(os.ErrDeadlineExceeded) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("before: %v, %v", c.err(), c.explain(io.EOF))
		}
		time.Sleep(time.Second)
		if c.err() != ErrTimeout || c.explain(io.EOF) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("after 1 of 1 s: %v, %v", c.err(), c.explain(io.EOF))
		}
	})
}

// A context that ends tells why, and where the call was.
func TestCallsContext(t *testing.T) {
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := clientCall{Bounds: clock.Bounds{Context: ctx}, phase: PhaseDial}
	if !c.IsBound() || c.HasEnded() || c.err() != nil || c.explain(io.EOF) != io.EOF {
		t.Error("it has ended before")
	}
	cancel(why)
	<-c.Done()
	for _, err := range []error{c.err(), c.explain(io.EOF)} {
		var phase *PhaseError
		if !errors.As(err, &phase) || phase.Phase != PhaseDial || !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}
	own := &PhaseError{Phase: PhaseDNS, Err: why}
	if got := c.explain(own); got != own {
		t.Errorf("the dialer's error became %v", got)
	}
}

// roundTripFunc is a RoundTripper.
type roundTripFunc func(hc *HostClient, req *Request, resp *Response) (bool, error)

func (f roundTripFunc) RoundTrip(hc *HostClient, req *Request, resp *Response) (bool, error) {
	return f(hc, req, resp)
}

func checkDialTimeout(t *testing.T, name, addr string, conn net.Conn, err error) {
	t.Helper()
	var dialErr *ErrDialWithUpstream
	if conn != nil || !errors.Is(err, ErrDialTimeout) || !errors.As(err, &dialErr) || dialErr.Upstream != addr ||
		err.Error() != "sluice: cannot connect to "+addr+": dialing timed out" {
		t.Errorf("%s: got %v, %v", name, conn, err)
	}
}

func TestDialTimeoutOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sharedDialer.dialer.Connect = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		defer func() { sharedDialer.dialer.Connect = nil }()
		began := time.Now()
		req := &Request{}
		req.SetRequestURI("http://192.0.2.1/")
		err := (&HostClient{Addr: "192.0.2.1:80"}).Do(req, nil)
		checkDialTimeout(t, "a client", "192.0.2.1:80", nil, err)
		if took := time.Since(began); took != DefaultDialTimeout {
			t.Errorf("a client: took %v", took)
		}
	})
}

// A fakeProtocol is a protocol of another module: a list of what becomes of each Acquire.
type fakeProtocol struct {
	t         *testing.T
	host      *streams.Host
	acquires  []fakeAcquire
	announced [][]byte
	released  int
	calls     []streams.Call
	closed    bool
	isMoved   bool // what Misdirected returns
}

// A fakeAcquire is an error, or a stream that is answered with a status, or fails.
type fakeAcquire struct {
	err      error
	status   int
	body     string
	failure  error
	meaning  streams.Failure
	isReused bool
	tunnel   net.Conn
}

func (p *fakeProtocol) Value(any) any { return p }

func (p *fakeProtocol) NewPeers(h *streams.Host) streams.Peers { p.host = h; return p }

func (p *fakeProtocol) Acquire(call streams.Call) (streams.Stream, error) {
	p.calls = append(p.calls, call)
	next := p.acquires[0]
	p.acquires = p.acquires[1:]
	if next.err != nil {
		return nil, next.err
	}
	return &fakeStream{protocol: p, fakeAcquire: next}, nil
}

func (p *fakeProtocol) Announced(lines [][]byte, _ []byte) { p.announced = lines }
func (p *fakeProtocol) Misdirected() bool                  { return p.isMoved }
func (p *fakeProtocol) CloseIdle()                         { p.closed = true }
func (p *fakeProtocol) Counts() (open, idle int)           { return 3, 2 }
func (p *fakeProtocol) RoundTrip(hc *HostClient, req *Request, resp *Response) (bool, error) {
	return streams.RoundTrip(p, hc, req, resp)
}

type fakeStream struct {
	fakeAcquire
	protocol *fakeProtocol
	params   streams.Params
}

func (s *fakeStream) Params() *streams.Params  { return &s.params }
func (s *fakeStream) Failure() streams.Failure { return s.meaning }
func (s *fakeStream) Close() error             { return nil }
func (s *fakeStream) Release()                 { s.protocol.released++ }
func (s *fakeStream) NetConn() net.Conn        { return &net.TCPConn{} }
func (s *fakeStream) Upstream() string         { return "fake:443" }
func (s *fakeStream) Tunnel() net.Conn         { return s.tunnel }
func (s *fakeStream) IsReused() bool           { return s.isReused }

func (s *fakeStream) Do() error {
	if s.failure != nil {
		return s.failure
	}
	r := s.params.Request
	var head fieldlist.Head
	head.StatusCode = s.status
	r.Fields().Add(field.Other, []byte("alt-svc"), []byte(`h3=":443"`))
	isStreamed, err := r.HeadReceived(&head, false)
	if err != nil || isStreamed {
		return err
	}
	return r.BodyReceived([]byte(s.body))
}

func (s *fakeStream) Read(p []byte) (int, error) {
	n := copy(p, s.body)
	if s.body = s.body[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestAttachedProtocol: what a HostClient does with a protocol of another module.
func TestAttachedProtocol(t *testing.T) {
	ok := fakeAcquire{status: 200, body: "hello"}
	lost := errors.New("lost")
	for _, tc := range []struct {
		name     string
		method   string
		acquires []fakeAcquire
		want     error
		released int
	}{
		{"a response", "POST", []fakeAcquire{ok}, nil, 1},
		{"a full pool", "GET", []fakeAcquire{{err: pool.ErrFull}}, ErrNoFreeConns, 0},
		{"no connection", "GET", []fakeAcquire{{err: lost}}, lost, 0},
		{"nothing sent, on a used connection", "POST", []fakeAcquire{{failure: lost, meaning: streams.Failure{IsUnsent: true, IsSafe: true}, isReused: true}, ok}, nil, 2},
		{"refused", "POST", []fakeAcquire{{failure: lost, meaning: streams.Failure{IsSafe: true}}, ok}, nil, 2},
		{"maybe processed", "POST", []fakeAcquire{{failure: lost}}, lost, 1},
		{"maybe processed, idempotent", "PUT", []fakeAcquire{{failure: lost}, ok}, nil, 2},
		{"ended before the head", "POST", []fakeAcquire{{failure: io.EOF}}, ErrConnectionClosed, 1},
		{"misdirected", "POST", []fakeAcquire{{status: 421}, ok}, nil, 2},
	} {
		for _, isStreamed := range []bool{false, true} {
			p := &fakeProtocol{t: t, acquires: tc.acquires, isMoved: true}
			c := &HostClient{Addr: "a.example", IsTLS: true, Transport: p, StreamResponseBody: isStreamed}
			req, resp := newCall(tc.method, "https://a.example/")
			err := c.Do(req, resp)
			if !errors.Is(err, tc.want) || err == nil && tc.want != nil || len(p.acquires) > 0 {
				t.Errorf("%s: %v, %d not used", tc.name, err, len(p.acquires))
			}
			if err == nil && (string(resp.Body()) != "hello" || string(resp.Header.Protocol()) != "HTTP/3.0" || len(p.announced) != 1) {
				t.Errorf("%s: %s %q, announced %s", tc.name, resp.Header.Protocol(), resp.Body(), p.announced)
			}
			if p.released != tc.released {
				t.Errorf("%s: %d streams were released, want %d", tc.name, p.released, tc.released)
			}
			if p.host.Addrs[0] != "a.example:443" || p.host.HasDialer || p.host.MaxConns != defaultHTTP2Conns {
				t.Errorf("%s: %+v", tc.name, p.host)
			}
		}
	}
}

// TestAttachedTunnel: what ConnectProtocol does with a protocol of another module.
func TestAttachedTunnel(t *testing.T) {
	tunnel, lost := &net.TCPConn{}, errors.New("lost")
	ok := fakeAcquire{status: 200, tunnel: tunnel}
	stale := fakeAcquire{failure: lost, meaning: streams.Failure{IsUnsent: true, IsSafe: true}, isReused: true}
	for _, tc := range []struct {
		name     string
		acquires []fakeAcquire
		want     error
		released int // but tunnels
	}{
		{"accepted", []fakeAcquire{ok}, nil, 0},
		{"a full pool", []fakeAcquire{{err: pool.ErrFull}}, ErrNoFreeConns, 0},
		{"no connection", []fakeAcquire{{err: lost}}, lost, 0},
		{"nothing sent, on used connections", []fakeAcquire{stale, stale, stale, stale, stale, stale, ok}, nil, 6},
		{"rejected", []fakeAcquire{{failure: lost, meaning: streams.Failure{IsSafe: true}}, ok}, nil, 1},
		{"maybe processed", []fakeAcquire{{failure: lost}}, lost, 1},
		{"not over this protocol", []fakeAcquire{{err: streams.ErrElsewhere}}, ErrNoConnectProtocol, 0},
		{"not with this server", []fakeAcquire{{failure: streams.ErrElsewhere, meaning: stale.meaning, isReused: true}}, ErrNoConnectProtocol, 1},
		{"not with this server, and no other protocol", []fakeAcquire{{failure: streams.ErrNoConnect, meaning: stale.meaning, isReused: true}}, streams.ErrNoConnect, 1},
	} {
		p := &fakeProtocol{t: t, acquires: tc.acquires}
		c := &HostClient{Addr: "a.example", IsTLS: true, Transport: p}
		req, resp := newCall("GET", "https://a.example/")
		conn, err := c.ConnectProtocol(t.Context(), "test", req, resp)
		if !errors.Is(err, tc.want) || err == nil && (tc.want != nil || conn != net.Conn(tunnel)) || len(p.acquires) > 0 {
			t.Errorf("%s: %v, %v, %d not used", tc.name, conn, err, len(p.acquires))
		}
		if p.released != tc.released {
			t.Errorf("%s: %d streams were released, want %d", tc.name, p.released, tc.released)
		}
	}
	p := &fakeProtocol{t: t, acquires: []fakeAcquire{{status: 403, body: "not you"}}}
	c := &HostClient{Addr: "a.example", IsTLS: true, Transport: p}
	req, resp := newCall("GET", "https://a.example/")
	conn, err := c.ConnectProtocol(t.Context(), "test", req, resp)
	if conn != nil || err != nil || resp.StatusCode() != 403 || p.released != 0 {
		t.Fatalf("refused: %v, %v, status %d", conn, err, resp.StatusCode())
	}
	if body, err := io.ReadAll(resp.BodyStream()); err != nil || string(body) != "not you" || p.released != 1 {
		t.Errorf("refused: %q, %v, %d streams were released", body, err, p.released)
	}
}

// TestAttachedElsewhere: what the protocol does not want goes over TCP.
func TestAttachedElsewhere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{Handler: func(ctx *RequestCtx) { ctx.SetBodyString("tcp") }}
	go server.Serve(ln)
	defer server.Shutdown()
	p := &fakeProtocol{t: t, acquires: []fakeAcquire{{err: streams.ErrElsewhere}}}
	c := &HostClient{Addr: ln.Addr().String(), Transport: p}
	req, resp := newCall("GET", "http://a.example/")
	if err := c.Do(req, resp); err != nil || string(resp.Body()) != "tcp" || p.announced != nil {
		t.Errorf("%v, %q, announced %s", err, resp.Body(), p.announced)
	}
	if err := p.host.OpenTCP(t.Context()); err != nil {
		t.Error(err)
	}
	if c.ConnsCount() != 3+1 || c.IdleConnsCount() != 2+1 {
		t.Errorf("%d connections, %d idle", c.ConnsCount(), c.IdleConnsCount())
	}
	if c.CloseIdleConnections(); !p.closed || c.ConnsCount() != 3 {
		t.Errorf("closed: %v, %d connections", p.closed, c.ConnsCount())
	}
}

// TestAttachedTrace: hooks are called, and one that panics keeps no stream.
func TestAttachedTrace(t *testing.T) {
	for _, isHeld := range []bool{false, true} {
		p := &fakeProtocol{t: t, acquires: []fakeAcquire{{status: 200, isReused: true}}}
		c := &HostClient{Addr: "a.example:443", IsTLS: true, Transport: p}
		var events []string
		c.Trace = &ClientTrace{
			GetConn: func(addr string) { events = append(events, "get "+addr) },
			GotConn: func(info GotConnInfo) {
				events = append(events, fmt.Sprint("got ", info.IsReused))
				if isHeld {
					panic("hook")
				}
			},
			WroteRequest: func(error) { events = append(events, "wrote") },
			FirstByte:    func() { events = append(events, "first byte") },
		}
		want := "[get a.example:443 got true wrote first byte]"
		func() {
			defer func() {
				if (recover() != nil) != isHeld {
					t.Error("the panic did not come through")
				}
			}()
			req, resp := newCall("GET", "https://a.example/")
			if err := c.Do(req, resp); err != nil {
				t.Error(err)
			}
		}()
		if isHeld {
			want = "[get a.example:443 got true]"
		}
		if got := fmt.Sprint(events); got != want || p.released != 1 {
			t.Errorf("%s, want %s; released %d", got, want, p.released)
		}
	}
}

// TestCallsOfCopies: a Request uses the memory of its calls again, and a copy by assignment
// does not use that of the original.
func TestCallsOfCopies(t *testing.T) {
	var original Request
	first := beginCall(&original)
	inner := beginCall(&original)
	if inner == first || inner.outer != first || original.call != inner {
		t.Fatal("the second call is not part of the first")
	}
	inner.end(&original)
	first.end(&original)
	dup := assigned(&original)
	a, b := beginCall(&original), beginCall(dup)
	if a == b || a != first {
		t.Errorf("the calls %p and, of the copy, %p, want %p and another one", a, b, first)
	}
	if c := beginCall(dup); c == inner || c == b || c.outer != b {
		t.Error("the copy uses the memory of the original's second call")
	}
	if c := beginCall(&original); c != inner || c.outer != a {
		t.Error("the second call of the original is not used again")
	}
}
