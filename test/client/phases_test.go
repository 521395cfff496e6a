package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A blockade is a client whose next request comes to a halt in a certain phase.
type blockade struct {
	t       *testing.T
	client  *sluice.HostClient
	req     *sluice.Request
	blocked func() // waits until the request does not get on
	release func() // what must happen before the client's goroutines can end; may be nil
	conns   int    // that are left when the request was given up
}

// newBlockade returns a blockade with a request to addr.
func newBlockade(t *testing.T, addr string) *blockade {
	b := &blockade{t: t, client: &sluice.HostClient{Addr: addr}, req: &sluice.Request{}}
	b.req.SetRequestURI("http://" + addr + "/")
	return b
}

// signals returns a channel, and a function that makes it readable and never
// blocks.
func signals() (c <-chan struct{}, signal func()) {
	ch := make(chan struct{}, 1)
	return ch, func() {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// TestCancelInEachPhase: a request that is blocked in whatever phase ends with
// its context, says in which phase it was, and leaves nothing behind.
func TestCancelInEachPhase(t *testing.T) {
	for _, c := range []struct {
		name  string
		phase sluice.Phase
		block func(t *testing.T) *blockade
	}{
		{"all connections in use", sluice.PhaseWait, blockByPool},
		{"the resolver hangs", sluice.PhaseDNS, blockByResolver},
		{"the resolver of a dialer hangs", sluice.PhaseDial, blockByDialersResolver},
		{"the dialer hangs", sluice.PhaseDial, blockByDialer},
		{"the backlog is full", sluice.PhaseDial, blockByBacklog},
		{"the peer is silent in the handshake", sluice.PhaseTLS, blockByHandshake},
		{"the peer reads nothing", sluice.PhaseWrite, func(t *testing.T) *blockade { return blockByUnread(t, false) }},
		{"the peer reads nothing of a stream", sluice.PhaseWrite, func(t *testing.T) *blockade { return blockByUnread(t, true) }},
		{"the peer reads nothing of a small request", sluice.PhaseWrite, blockByPipe},
		{"no answer", sluice.PhaseRead, func(t *testing.T) *blockade { return blockBySilence(t, "") }},
		{"half a head", sluice.PhaseRead, func(t *testing.T) *blockade { return blockBySilence(t, "HTTP/1.1 200 OK\r\nCont") }},
		{"half a body", sluice.PhaseRead, func(t *testing.T) *blockade {
			return blockBySilence(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		}},
		{"half a chunk", sluice.PhaseRead, func(t *testing.T) *blockade { return blockBySilence(t, chunks("5\r\nhel")) }},
		{"an interim answer", sluice.PhaseRead, func(t *testing.T) *blockade { return blockBySilence(t, "HTTP/1.1 102 Processing\r\n\r\n") }},
		{"no answer to a big request", sluice.PhaseRead, blockBigBySilence},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rounds = 5
			var slowest time.Duration
			for i := range rounds {
				t.Run(fmt.Sprint(i), func(t *testing.T) { slowest = max(slowest, c.block(t).cancel(c.phase)) })
			}
			t.Logf("%v: the slowest of %d returned %v after the cancellation", c.phase, rounds, slowest)
		})
	}
}

// cancel sends the request, cancels it when it is blocked and returns how long
// that took.
func (b *blockade) cancel(phase sluice.Phase) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.client.DoContext(ctx, b.req, nil) }()
	b.blocked()
	select {
	case err := <-done:
		b.t.Fatalf("not blocked: %v", err)
	default:
	}
	begin := time.Now()
	cancel()
	err := harness.Receive(b.t, done)
	took := time.Since(begin)
	expectPhase(b.t, err, phase)
	if b.release != nil {
		b.release()
	}
	expectNoClientGoroutines(b.t)
	harness.Eventually(b.t, "the connection is counted out", func() bool { return b.client.ConnsCount() == b.conns })
	if n := b.client.PendingRequests(); n != b.conns {
		b.t.Errorf("%d requests are pending", n)
	}
	return took
}

// expectPhase checks the error of a cancelled request.
func expectPhase(t *testing.T, err error, phase sluice.Phase) {
	t.Helper()
	var at *sluice.PhaseError
	switch {
	case !errors.As(err, &at):
		t.Errorf("%T %v, want a *PhaseError", err, err)
	case at.Phase != phase:
		t.Errorf("%v, want the phase %v", err, phase)
	}
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), phase.String()) {
		t.Errorf("%v, want the phase and context.Canceled in it", err)
	}
}

// clientCode finds what a client runs in a stack.
var clientCode = regexp.MustCompile(`sluice\.(\(\*(HostClient|exchange|clientConn|transport)\)|dialAside)|internal/client/http1\.|internal/client/dial\.Aside`)

// expectNoClientGoroutines waits until no goroutine runs code of a client.
func expectNoClientGoroutines(t *testing.T) {
	t.Helper()
	var left string
	for end := time.Now().Add(harness.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left = ""
		for _, stack := range stacks() {
			if clientCode.MatchString(stack) && !strings.Contains(stack, ".occupy(") {
				left = stack
			}
		}
		if left == "" {
			return
		}
	}
	t.Fatalf("a goroutine is left:\n%s", left)
}

// stacks returns what all goroutines run.
func stacks() []string {
	buf := make([]byte, 1<<20)
	return strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
}

// silentPeer accepts connections, and calls handle for each, which may be nil.
// They are closed when the test ends.
func silentPeer(t *testing.T, handle func(c net.Conn)) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			if handle != nil {
				running.Go(func() { handle(c) })
			}
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return ln.Addr().String()
}

// A tellingConn tells of the beginnings of calls.
type tellingConn struct {
	net.Conn
	read, write, limit func() // each may be nil
}

func (c *tellingConn) Read(p []byte) (int, error) {
	if c.read != nil {
		c.read()
	}
	return c.Conn.Read(p)
}

func (c *tellingConn) Write(p []byte) (int, error) {
	if c.write != nil {
		c.write()
	}
	return c.Conn.Write(p)
}

func (c *tellingConn) SetReadDeadline(at time.Time) error {
	if c.limit != nil {
		c.limit()
	}
	return c.Conn.SetReadDeadline(at)
}

func blockByPool(t *testing.T) *blockade {
	asked, signal := signals()
	b := newBlockade(t, silentPeer(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			signal()
		}
	}))
	b.client.MaxConns, b.conns = 1, 1
	ctx, cancel := context.WithCancel(t.Context())
	occupied := make(chan struct{})
	go occupy(ctx, b.client, occupied)
	harness.Receive(t, asked)
	t.Cleanup(func() {
		cancel()
		harness.Receive(t, occupied)
	})
	b.blocked = func() {
		harness.Eventually(t, "the second waits", func() bool {
			return slices.ContainsFunc(stacks(), func(stack string) bool {
				head, _, _ := strings.Cut(stack, "\n")
				return strings.Contains(head, "[select") && strings.Contains(stack, ").DoContext(") && !strings.Contains(stack, ".occupy(")
			})
		})
	}
	return b
}

// occupy holds a connection of c until ctx ends.
func occupy(ctx context.Context, c *sluice.HostClient, done chan<- struct{}) {
	defer close(done)
	var req sluice.Request
	req.SetRequestURI("http://" + c.Addr + "/")
	_ = c.DoContext(ctx, &req, nil)
}

// hangingResolver looks up nothing until it is released.
type hangingResolver struct {
	asked   func()
	release chan struct{}
}

func (r hangingResolver) LookupIPAddr(ctx context.Context, _ string) ([]net.IPAddr, error) {
	r.asked()
	select {
	case <-r.release:
	case <-ctx.Done():
	}
	return nil, errors.New("released")
}

// blockByResolver has the default resolver hang, which is what clients without
// a dialer ask.
func blockByResolver(t *testing.T) *blockade {
	asked, signal := signals()
	release, ended := make(chan struct{}), make(chan struct{}, 16)
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		signal()
		<-release
		ended <- struct{}{}
		return nil, os.ErrClosed
	}}
	t.Cleanup(func() { net.DefaultResolver = usual })
	b := newBlockade(t, "phases.test:80")
	b.blocked = func() { harness.Receive(t, asked) }
	t.Cleanup(func() {
		close(release)
		harness.Receive(t, ended)
		sluice.FlushDNSCache()
	})
	return b
}

// blockByDialersResolver: a dialer of the user's is a function, which the client
// cannot look into.
func blockByDialersResolver(t *testing.T) *blockade {
	asked, signal := signals()
	release := make(chan struct{})
	dialer := &sluice.TCPDialer{Resolver: hangingResolver{signal, release}}
	b := newBlockade(t, "phases.test:80")
	b.client.DialTimeout = dialer.DialTimeout
	b.blocked = func() { harness.Receive(t, asked) }
	b.release = func() { close(release) }
	return b
}

// blockByDialer: a dialer that hangs, and then has a connection that nobody
// wants any more.
func blockByDialer(t *testing.T) *blockade {
	asked, signal := signals()
	release := make(chan struct{})
	ours, theirs := net.Pipe()
	b := newBlockade(t, "phases.test:80")
	b.client.Dial = func(string) (net.Conn, error) {
		signal()
		<-release
		return ours, nil
	}
	b.blocked = func() { harness.Receive(t, asked) }
	b.release = func() {
		close(release)
		_ = theirs.SetDeadline(time.Now().Add(harness.Patience))
		if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection that came too late: %v, want it closed", err)
		}
	}
	return b
}

func blockByHandshake(t *testing.T) *blockade {
	greeted, signal := signals()
	b := newBlockade(t, silentPeer(t, func(c net.Conn) {
		if n, _ := c.Read(make([]byte, 1)); n == 1 {
			signal()
		}
	}))
	b.client.IsTLS = true
	b.req.URI().SetScheme("https")
	b.blocked = func() { harness.Receive(t, greeted) }
	return b
}

// blockByUnread sends more than sockets hold, from memory or as a stream.
func blockByUnread(t *testing.T, isStream bool) *blockade {
	const size = 256 << 20
	b := newBlockade(t, silentPeer(t, nil))
	b.req.Header.SetMethod("POST")
	body := &countingZeros{left: size}
	if isStream {
		b.req.SetBodyStream(body, size)
	} else {
		var written atomic.Int64
		b.req.SetBodyRaw(zeros(64 << 20))
		b.client.Dial = func(addr string) (net.Conn, error) {
			c, err := net.Dial("tcp", addr)
			return &slicedConn{Conn: c, written: &written}, err
		}
		b.blocked = func() { settled(t, &written) }
		return b
	}
	b.blocked = func() { settled(t, &body.read) }
	return b
}

// zeros is a body.
func zeros(n int) []byte { return make([]byte, n) }

// countingZeros is a stream of zeros.
type countingZeros struct {
	left int64
	read atomic.Int64
}

func (z *countingZeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	z.read.Add(int64(n))
	return n, nil
}

// slicedConn writes in slices, and counts.
type slicedConn struct {
	net.Conn
	written *atomic.Int64
}

func (c *slicedConn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = c.Conn.Write(p[n:min(n+64<<10, len(p))])
		n += m
		c.written.Add(int64(m))
	}
	return n, err
}

// settled waits until a count that has begun to rise does not do so any more.
func settled(t *testing.T, count *atomic.Int64) {
	const enough = 50
	last, same := int64(0), 0
	harness.Eventually(t, "writing comes to a halt", func() bool {
		if n := count.Load(); n == 0 || n != last {
			last, same = n, 0
		} else {
			same++
		}
		return same == enough
	})
}

func blockByPipe(t *testing.T) *blockade {
	begun, signal := signals()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	b := newBlockade(t, "pipe.test:80")
	b.client.Dial = func(string) (net.Conn, error) { return &tellingConn{Conn: ours, write: signal}, nil }
	b.blocked = func() { harness.Receive(t, begun) }
	return b
}

// blockBySilence has a peer that sends answer, which is not all.
func blockBySilence(t *testing.T, answer string) *blockade {
	begun, signal := signals()
	reads := 1
	if answer != "" {
		reads = 2 // the answer, and what does not come
	}
	b := newBlockade(t, silentPeer(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, answer)
	}))
	b.client.Dial = func(addr string) (net.Conn, error) {
		c, err := net.Dial("tcp", addr)
		return &tellingConn{Conn: c, read: func() {
			if reads--; reads == 0 {
				signal()
			}
		}}, err
	}
	b.blocked = func() { harness.Receive(t, begun) }
	return b
}

func blockBigBySilence(t *testing.T) *blockade {
	begun, signal := signals()
	b := newBlockade(t, silentPeer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	b.req.Header.SetMethod("POST")
	b.req.SetBodyRaw(zeros(1 << 20))
	// The bound for reading is set when all is written.
	b.client.ReadTimeout = time.Hour
	b.client.Dial = func(addr string) (net.Conn, error) {
		c, err := net.Dial("tcp", addr)
		return &tellingConn{Conn: c, limit: signal}, err
	}
	b.blocked = func() { harness.Receive(t, begun) }
	return b
}

// TestCancelBodyStream: reading a response's stream ends with the context too.
func TestCancelBodyStream(t *testing.T) {
	for name, answer := range map[string]string{
		"with a length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
		"in chunks":     chunks("5\r\nhello\r\n"),
		"until the end": answer200("hello"),
	} {
		t.Run(name, func(t *testing.T) {
			b := blockBySilence(t, answer)
			var resp sluice.Response
			resp.StreamBody = true
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := b.client.DoContext(ctx, b.req, &resp); err != nil {
				t.Fatal(err)
			}
			stream := resp.BodyStream()
			if _, err := io.ReadFull(stream, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := stream.Read(make([]byte, 5))
				done <- err
			}()
			b.blocked()
			begin := time.Now()
			cancel()
			err := harness.Receive(t, done)
			t.Logf("returned %v after the cancellation", time.Since(begin))
			expectPhase(t, err, sluice.PhaseRead)
			if _, again := stream.Read(make([]byte, 5)); !errors.Is(again, context.Canceled) {
				t.Errorf("another Read: %v", again)
			}
			_ = resp.CloseBodyStream() // what it returns was told by Read
			expectNoClientGoroutines(t)
			if n := b.client.ConnsCount(); n != 0 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestCancelledBefore: a context that has ended costs nothing but the error,
// which is the cause's.
func TestCancelledBefore(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	b := newBlockade(t, silentPeer(t, nil))
	err := b.client.DoContext(ctx, b.req, nil)
	var at *sluice.PhaseError
	if !errors.As(err, &at) || at.Phase != sluice.PhaseWait || !errors.Is(err, cause) || at.Timeout() {
		t.Errorf("DoContext: %v", err)
	}
	if _, _, err := b.client.GetContext(ctx, nil, "http://"+b.client.Addr); !errors.Is(err, cause) {
		t.Errorf("GetContext: %v", err)
	}
	if _, _, err := b.client.PostContext(ctx, nil, "http://"+b.client.Addr, nil); !errors.Is(err, cause) {
		t.Errorf("PostContext: %v", err)
	}
	if n := b.client.ConnsCount(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestContextDeadline: a context whose time is over is told apart from one that
// was cancelled.
func TestContextDeadline(t *testing.T) {
	b := blockBySilence(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := b.client.DoContext(ctx, b.req, nil)
	var at *sluice.PhaseError
	if !errors.As(err, &at) || !at.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a *PhaseError of context.DeadlineExceeded", err)
	}
}

// TestRequestAfterCancellation: request and response are the caller's when the
// call returns, and go on with another request.
func TestRequestAfterCancellation(t *testing.T) {
	answers := make(chan struct{})
	s := newRawServer(t, func(c *rawConn, r rawRequest) bool {
		if r.path == "/silent" {
			close(answers)
			return true
		}
		c.send(hello())
		return true
	})
	client := &sluice.HostClient{Addr: s.ln.Addr().String()}
	var req sluice.Request
	var resp sluice.Response
	req.SetRequestURI(s.url("/silent"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-answers
		cancel()
	}()
	if err := client.DoContext(ctx, &req, &resp); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want context.Canceled", err)
	}
	req.SetRequestURI(s.url("/"))
	if err := client.DoTimeout(&req, &resp, harness.Patience); err != nil || string(resp.Body()) != "hello" {
		t.Errorf("%q (%v)", resp.Body(), err)
	}
}

// dialTrace tells when connecting begins.
func dialTrace(begun func()) *sluice.ClientTrace {
	return &sluice.ClientTrace{DialStart: func(string, string) { begun() }}
}
