package sluice

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// An echoFamily has connections that send back what they get, with a number.
type echoFamily struct{ closed, woken atomic.Int32 }

func (f *echoFamily) NewHost(s upgrade.Server) upgrade.Host { return &echoHost{f, s} }

func (f *echoFamily) Name() string { return "" }

func (h *echoHost) Unpack(engine.Conn, []byte) engine.Protocol { return nil }

type echoHost struct {
	family *echoFamily
	server upgrade.Server
}

func (h *echoHost) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	h.family.woken.Add(1)
	served, _ := h.server.Served(m)
	return &echoProtocol{h, c, served}
}

type echoProtocol struct {
	host   *echoHost
	conn   engine.Conn
	number uint64
}

func (p *echoProtocol) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanPrompt }

func (p *echoProtocol) Feed([]byte) (int, engine.Next) { return 0, engine.Run }

func (p *echoProtocol) Pause() bool { return true }

func (p *echoProtocol) HalfClosed(out []byte) []byte { return append(out, "bye\n"...) }

func (p *echoProtocol) Detached(net.Conn) {}

func (p *echoProtocol) Closed(error) { p.host.family.closed.Add(1) }

func (p *echoProtocol) TimedOut(out []byte) ([]byte, engine.Next) {
	return append(out, "late\n"...), engine.Close
}

func (p *echoProtocol) Run(out []byte) ([]byte, engine.Next) {
	in := p.conn.Buffered()
	p.number++
	out = fmt.Appendf(out, "%d %s", p.number, in)
	p.host.server.Count(len(in), len(in)+2)
	p.conn.Discard(len(in))
	return out, engine.Read
}

func (p *echoProtocol) Prompted(out []byte) ([]byte, engine.Next) {
	p.host.server.Printf("prompted, close requested: %v", p.host.server.Closing() != upgrade.CloseNot) // the test counts it
	return append(out, "prompted\n"...), engine.Read
}

func (p *echoProtocol) Sleep() (engine.Memo, bool) { return p.host.server.Memo(1, p.number, 2), true }

// A takeOverTest has a server whose connections go to an echoFamily.
type takeOverTest struct {
	*testing.T
	family   echoFamily
	server   *Server
	addr     string
	logger   recordingLogger
	hijacked atomic.Int32
	target   atomic.Pointer[engine.Target] // of the last connection
	host     atomic.Pointer[echoHost]
}

func newTakeOverTest(t *testing.T, e Engine) *takeOverTest {
	test := &takeOverTest{T: t}
	test.server = &Server{Engine: e, Logger: &test.logger, Handler: test.handle, ConnState: func(_ net.Conn, state ConnState) {
		if state == StateHijacked {
			test.hijacked.Add(1)
		}
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	test.addr = ln.Addr().String()
	go func() { _ = test.server.Serve(ln) }()
	return test
}

func (t *takeOverTest) handle(ctx *RequestCtx) {
	ctx.SetStatusCode(StatusSwitchingProtocols)
	err := upgrade.TakeOver(ctx, upgrade.Takeover{Family: &t.family, Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
		if string(ctx.Path()) == "/nothing" {
			return nil, out
		}
		at := c.Target()
		t.target.Store(&at)
		t.host.Store(h.(*echoHost))
		return &echoProtocol{h.(*echoHost), c, 40}, append(out, "first\n"...)
	}})
	if err != nil {
		t.Error(err)
	}
}

// dial makes a connection and sends request.
func (t *takeOverTest) dial(request string) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp4", t.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, request)
	return conn, bufio.NewReader(conn)
}

// TestTakeOver: another protocol has the connection after the response, and sleeps between
// its messages.
func TestTakeOver(t *testing.T) {
	for _, e := range []Engine{EngineEpoll, EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) { newTakeOverTest(t, e).run() })
	}
	if err := upgrade.TakeOver(new(RequestCtx), upgrade.Takeover{Family: &echoFamily{}}); !errors.Is(err, ErrNilConnection) {
		t.Error(err)
	}
}

func (t *takeOverTest) run() {
	conn, in := t.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	expect := func(want string) {
		t.Helper()
		if line, err := in.ReadString('\n'); line != want+"\n" {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
	expect("HTTP/1.1 101 Switching Protocols\r")
	for line := ""; line != "\r\n"; {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	expect("first")
	for n := range 3 {
		fmt.Fprintln(conn, "x")
		expect(fmt.Sprint(41+n, " x"))
	}
	if at := *t.target.Load(); at.Generation != 0 {
		t.host.Load().server.Prompt(at)
		expect("prompted")
		if t.family.woken.Load() == 0 || t.logger.count() == 0 {
			t.Error("the connection never slept, or was not prompted")
		}
	}
	at := *t.target.Load()
	missed := false
	eventually(t, "it waits", func() bool {
		missed = false
		t.host.Load().server.Cast([]engine.Target{at}, []byte("cast\n"), func(i int) { missed = i == 0 })
		return !missed || at.Generation == 0 // without one, the engine cannot cast
	})
	if missed != (at.Generation == 0) {
		t.Errorf("target %v is missed: %v", at, missed)
	} else if !missed {
		expect("cast")
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	expect("bye")
	for _, request := range []string{"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"} {
		_, in := t.dial(request)
		if got, err := io.ReadAll(in); err != nil || strings.Contains(string(got), "first") {
			t.Errorf("%q: %q, %v", request, got, err)
		}
	}
	if err := t.server.Shutdown(); err != nil {
		t.Error(err)
	}
	if _, n := t.server.state.Counts(); n > 0 {
		t.Errorf("after Shutdown, %d engines are kept", n)
	}
	if t.family.closed.Load() != 1 || t.hijacked.Load() != 1 {
		t.Errorf("%d connections closed, %d hijacked", t.family.closed.Load(), t.hijacked.Load())
	}
}

// TestTakeOverWithoutHost: without an engine, nothing is taken over.
func TestTakeOverWithoutHost(t *testing.T) {
	s := quietServer(func(*RequestCtx) {})
	ctx := &RequestCtx{exchange: &http1.Exchange{}}
	ctx.attach(s, s.config())
	if err := upgrade.TakeOver(ctx, upgrade.Takeover{Family: &echoFamily{}}); err != ErrServerClosed || ctx.takeover != nil {
		t.Errorf("without an engine: %v", err)
	}
	s.engine()
	known := &echoFamily{}
	for range 2 {
		if err := upgrade.TakeOver(ctx, upgrade.Takeover{Family: known}); err != nil || ctx.takeover.host != s.upgrades.At(0) {
			t.Error(err)
		}
		ctx.takeover = nil
	}
	u := s.upgrades.At(0).(*echoHost).server
	for _, m := range []uint64{0, 7, 1<<upgrade.MemoBits - 1, 1 << upgrade.MemoBits} {
		memo := u.Memo(1, m, 3)
		if got, isOwn := u.Served(memo); !isOwn || got != m&(1<<upgrade.MemoBits-1) || memo.ID != 1 || memo.Opened != 3 || memo.Served&(memoTLS|memoHTTP2|memoUpgraded) != memoUpgraded {
			t.Errorf("%d: the memo is %+v, with %d", m, memo, got)
		}
	}
}

// TestTakeOverLate: a handler whose request was given up meanwhile may ask for a takeover.
func TestTakeOverLate(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s := &Server{Handler: func(ctx *RequestCtx) {
		begun := make(chan struct{})
		go func() {
			close(begun)
			needs := upgrade.Takeover{NeedsTarget: true, WritesBody: true}
			for {
				if err := upgrade.TakeOver(ctx, needs); err == ErrNilConnection {
					ended <- err
					return
				}
			}
		}()
		<-begun
		ctx.TimeoutError("late")
	}}
	serveUntilEnd(t, s, ln)
	for range 20 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if text, err := io.ReadAll(conn); !strings.HasSuffix(string(text), "late") || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		conn.Close()
		<-ended
	}
}
