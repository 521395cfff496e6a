package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
)

// One call serves TCP and UDP on one port. Answers over TCP name it. Shutdown ends both.
func TestListenAndServe(t *testing.T) {
	s := &sluice.Server{Handler: echo, TLSConfig: newCertificate(t)}
	ln, sockets, err := listenBoth("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := sockets[0].conn
	ended := make(chan error, 1)
	go func() { ended <- (&Server{Server: s}).ServeTLS(ln, c, "", "") }()
	addr := ln.Addr().String()
	if c.LocalAddr().String() != addr {
		t.Fatalf("UDP on %v, TCP on %v", c.LocalAddr(), addr)
	}
	_, body := fetch(t, newClient(t), request(t, "GET", "https://"+addr+"/", ""))
	if !strings.HasPrefix(body, "GET ") {
		t.Errorf("UDP: %q", body)
	}
	_, port, _ := net.SplitHostPort(addr)
	for _, protocols := range [][]string{{"http/1.1"}, {"h2"}} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}, ForceAttemptHTTP2: protocols[0] == "h2"}
		resp, _ := fetch(t, &http.Client{Transport: tr}, request(t, "GET", "https://"+addr+"/", ""))
		if got, want := resp.Header.Get("Alt-Svc"), `h3=":`+port+`"; ma=86400`; got != want {
			t.Errorf("%s: Alt-Svc %q, want %q", resp.Proto, got, want)
		}
		tr.CloseIdleConnections()
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ServeTLS: %v", err)
	}
	if again, err := net.ListenPacket("udp", addr); err != nil {
		t.Errorf("the socket is still open: %v", err)
	} else {
		again.Close()
	}
}

// What cannot be served is an error, and leaves nothing open.
func TestServeErrors(t *testing.T) {
	for name, s := range map[string]*sluice.Server{
		"no certificate": {Handler: echo},
		"no handler":     {TLSConfig: newCertificate(t)},
	} {
		ln, sockets, err := listenBoth("127.0.0.1:0", 1)
		if err != nil {
			t.Fatal(err)
		}
		c := sockets[0].conn
		if err := (&Server{Server: s}).ServeTLS(ln, c, "", ""); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: TCP: %v", name, err)
		}
		if _, _, err := c.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: UDP: %v", name, err)
		}
	}
	if err := ListenAndServe(&sluice.Server{Handler: echo}, "127.0.0.1:0", "no such file", "no such file"); err == nil {
		t.Error("no such file: no error")
	}
}

// Shutdown serves the requests that are there, rejects later ones, and waits until answers
// have arrived.
func TestShutdown(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			begun <- true
			<-goOn
		}
		ctx.SetBodyString(strings.Repeat("x", 50000))
	}}
	v, addr := serveHTTP3(t, s, Config{})
	c := dialRaw(t, addr)
	goAways := readGoAways(t, c)
	slow := c.open(get("/slow"))
	slow.Close()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown() }()
	var only *conn
	nettest.Poll(10*time.Second, func() bool {
		only = v.all()[0]
		only.mu.Lock()
		defer only.mu.Unlock()
		return only.phase >= phaseEnding
	})
	late := c.open(get("/late"))
	late.Close()
	var reset *quic.StreamError
	if _, err := io.ReadAll(late); !errors.As(err, &reset) || wire.Code(reset.ErrorCode) != wire.RequestRejected {
		t.Errorf("a late request: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("Shutdown does not wait: %v", err)
	default:
	}
	goOn <- true
	if got, err := io.ReadAll(slow); err != nil || len(got) < 50000 {
		t.Errorf("a request that was there: %d bytes, %v", len(got), err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code := c.closedWith(); code != wire.NoError {
		t.Errorf("closed with %v", code)
	}
	if got := <-goAways; len(got) != 2 || got[0] != everyID || got[1] != 4 {
		t.Errorf("GOAWAY with %v", got)
	}
}

// readGoAways returns the ids that the server's control stream names, after the connection's
// end.
func readGoAways(t *testing.T, c *rawConn) <-chan []uint64 {
	t.Helper()
	s, err := c.AcceptUniStream(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan []uint64, 1)
	go func() {
		var ids []uint64
		defer func() { result <- ids }()
		in, _ := io.ReadAll(s)
		control := wire.Control{Side: wire.Client}
		for in = in[1:]; len(in) > 0; {
			used, ev, isEvent, violation := control.Next(in)
			if violation != nil {
				t.Error(violation)
				return
			}
			if in = in[used:]; isEvent && ev.Type == wire.FrameGoAway {
				ids = append(ids, ev.ID)
			}
		}
	}()
	return result
}

// A context bounds Shutdown.
func TestShutdownIsBounded(t *testing.T) {
	begun := make(chan bool)
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		done := ctx.Done()
		begun <- true
		<-done
		<-begun
	}}
	addr := serve(t, s, Config{})
	c := dialRaw(t, addr)
	c.open(get("/")).Close()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ShutdownWithContext(ctx) }()
	cancel()
	c.closedWith()
	begun <- true
	if err := <-ended; err != context.Canceled {
		t.Errorf("Shutdown: %v", err)
	}
}

// Connection: close of a handler ends the connection after the answer.
func TestConnectionClose(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetConnectionClose()
		ctx.SetBodyString("last")
	}}, Config{})
	c := dialRaw(t, addr)
	if got, err := c.exchange(get("/")); err != nil || !strings.HasSuffix(string(got), "last") {
		t.Errorf("%q, %v", got, err)
	}
	if code := c.closedWith(); code != wire.NoError {
		t.Errorf("closed with %v", code)
	}
}

// The sweep ends what is late: heads, bodies, readers, idle connections.
//
// long: a table
func TestSweep(t *testing.T) {
	large := strings.Repeat("x", 8<<20)
	v, addr := serveHTTP3(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetBodyString(large)
	}}, Config{StallTimeout: 40 * time.Second, IdleTimeout: time.Minute})
	c := dialRaw(t, addr)
	isWaiting := func(what uint32) func() bool {
		return func() bool {
			for _, c := range v.all() {
				c.mu.Lock()
				defer c.mu.Unlock()
				for x := c.streams; x != nil; x = x.next {
					if x.wait.Load() != 0 && x.waitsFor.Load() == what {
						return true
					}
				}
			}
			return false
		}
	}
	after := func(d time.Duration) int64 { return clock.Nanos() + int64(d) }
	for _, row := range []struct {
		name  string
		send  []byte
		waits uint32
		late  time.Duration
		check func(s *quic.Stream) bool
	}{
		{"head", get("/")[:4], waitHead, defaultHeadTimeout, func(s *quic.Stream) bool {
			_, err := io.ReadAll(s)
			return isPeerReset(err)
		}},
		{"body", concat(head("POST", "/"), data("x")), waitBody, defaultHeadTimeout, func(s *quic.Stream) bool {
			got, err := io.ReadAll(s)
			return err == nil && strings.Contains(string(got), string(statusLine("408")))
		}},
		{"reader", get("/"), waitWrite, 40 * time.Second, func(s *quic.Stream) bool {
			_, err := io.ReadAll(s)
			return isPeerReset(err)
		}},
	} {
		s := c.open(row.send)
		if row.waits == waitWrite {
			s.Close()
		}
		if !nettest.Poll(10*time.Second, isWaiting(row.waits)) {
			t.Fatalf("%s: it does not wait", row.name)
		}
		v.sweep(after(row.late - 3*time.Second))
		if !isWaiting(row.waits)() {
			t.Errorf("%s: it ends too early", row.name)
		}
		passed := time.Duration(0)
		hasEnded := nettest.Poll(10*time.Second, func() bool {
			if isWaiting(row.waits)() { // the client may still take what was sent before
				passed += row.late + 3*time.Second
				v.sweep(after(passed))
			}
			return v.Stats().Streams == 0
		})
		if !hasEnded || !row.check(s) {
			t.Errorf("%s: not ended", row.name)
		}
	}
	v.sweep(after(50 * time.Second))
	if c.Context().Err() != nil {
		t.Error("idle: it ends too early")
	}
	v.sweep(after(61 * time.Second))
	if code := c.closedWith(); code != wire.NoError {
		t.Errorf("idle: closed with %v", code)
	}
}

// A client that causes much work with little ends with H3_EXCESSIVE_LOAD.
func TestBudget(t *testing.T) {
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo}, Config{})
	grease := frame(0x21, nil)
	for _, row := range []struct {
		name   string
		attack func(c *rawConn, i int) error
	}{
		{"frames of a request", func(c *rawConn, i int) error {
			s, err := c.OpenStreamSync(c.Context())
			if err != nil {
				return err
			}
			for err == nil {
				_, err = s.Write(grease)
			}
			return err
		}},
		{"frames of the control stream", func(c *rawConn, i int) error {
			_, err := c.control.Write(grease)
			return err
		}},
		{"resets", func(c *rawConn, i int) error {
			s, err := c.OpenStreamSync(c.Context())
			if err != nil {
				return err
			}
			s.Write(head("POST", "/"))
			s.CancelWrite(quic.StreamErrorCode(wire.RequestCancelled))
			s.CancelRead(quic.StreamErrorCode(wire.RequestCancelled))
			return nil
		}},
		{"large heads", func(c *rawConn, i int) error {
			if i > 2*budgetSize/costLargeHead {
				return errors.New("they are not charged")
			}
			s, err := c.OpenStreamSync(c.Context())
			if err != nil {
				return err
			}
			_, _ = s.Write(head("GET", "/", "x-long", strings.Repeat("x", 200<<10))) // it may want no more
			_ = s.Close()
			_, err = io.ReadAll(s)
			return err
		}},
	} {
		c := dialRaw(t, addr)
		for i := range 20000 {
			if row.attack(c, i) != nil {
				break
			}
		}
		if code := c.closedWith(); code != wire.ExcessiveLoad {
			t.Errorf("%s: closed with %v", row.name, code)
		}
	}
	if got := v.Stats().Calmed; got != 4 {
		t.Errorf("%d were calmed", got)
	}
}

// The budget comes back with time and with finished requests.
func TestBudgetRefill(t *testing.T) {
	var b budget
	now := int64(1000 * budgetTick)
	for i := range budgetSize {
		if b.charge(now, 1) != nil {
			t.Fatalf("used up after %d", i)
		}
	}
	if b.charge(now, 1) == nil {
		t.Fatal("not used up")
	}
	b.refund(5)
	if b.charge(now, 5) != nil || b.charge(now, 1) == nil {
		t.Error("refund")
	}
	if b.charge(now+10*budgetTick, 10) != nil || b.charge(now+10*budgetTick, 1) == nil {
		t.Error("refill")
	}
}

// Limits of connections and of streams hold.
func TestLimits(t *testing.T) {
	release, running := make(chan bool), make(chan bool, 100)
	v, addr := serveHTTP3(t, &sluice.Server{Handler: func(*sluice.RequestCtx) {
		running <- true
		<-release
	}}, Config{MaxConcurrentStreams: 3, MaxConns: 1})
	c := dialRaw(t, addr)
	for range 3 {
		s := c.open(get("/"))
		s.Close()
		s.CancelRead(0x10c) // the handler still counts
		<-running
	}
	if s, err := c.OpenStream(); err == nil {
		t.Errorf("a fourth stream: %v", s.StreamID())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := quic.DialAddr(ctx, addr, clientTLS.Clone(), nil); err == nil {
		t.Error("a second connection")
	}
	close(release)
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.Write(get("/"))
	s.Close()
	if _, err := io.ReadAll(s); err != nil {
		t.Error(err)
	}
	if got := v.Stats(); got.Refused == 0 || got.Connections != 1 {
		t.Errorf("%+v", got)
	}
}

// A stuckListener has no connections.
type stuckListener struct {
	listener
	waiting atomic.Int64
	closed  chan struct{}
}

func (l *stuckListener) Accept(context.Context) (*quic.Conn, error) {
	l.waiting.Add(1)
	<-l.closed
	return nil, net.ErrClosed
}

// TestAcceptors: many goroutines wait for connections, so that quic-go has nearly always one to give
// a connection to.
func TestAcceptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failed := &stuckListener{closed: make(chan struct{})}, make(chan error, acceptors)
		new(serving).acceptAll(l, failed)
		synctest.Wait()
		if n := l.waiting.Load(); n != acceptors {
			t.Errorf("%d goroutines wait, want %d", n, acceptors)
		}
		close(l.closed)
		for range acceptors {
			if err := <-failed; err != net.ErrClosed {
				t.Error(err)
			}
		}
	})
}

// With many handshakes in progress, new clients prove their address.
func TestRetry(t *testing.T) {
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo}, Config{RetryAbove: -1})
	if got, err := dialRaw(t, addr).exchange(get("/")); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
	if got := v.Stats().Retries; got == 0 {
		t.Error("no Retry")
	}
	v, addr = serveHTTP3(t, &sluice.Server{Handler: echo}, Config{RetryAbove: 1})
	dialRaw(t, addr).exchange(get("/"))
	if got := v.Stats().Retries; got != 0 {
		t.Errorf("%d Retries without load", got)
	}
	v.handshakes.Add(1) // one that does not end
	defer v.handshakes.Add(-1)
	if got, err := dialRaw(t, addr).exchange(get("/")); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
	if got := v.Stats().Retries; got == 0 {
		t.Error("no Retry above the limit")
	}
	if !nettest.Poll(10*time.Second, func() bool { return v.handshakes.Load() == 1 }) {
		t.Errorf("%d handshakes in progress", v.handshakes.Load())
	}
}
