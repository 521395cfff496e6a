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
	"github.com/sluicehttp/sluice/internal/upgrade"
)

// An echoFamily has connections that send back what they get, with a number.
type echoFamily struct{ closed, woken atomic.Int32 }

func (f *echoFamily) NewHost(s upgrade.Server) upgrade.Host { return &echoHost{f, s} }

type echoHost struct {
	family *echoFamily
	server upgrade.Server
}

func (h *echoHost) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	h.family.woken.Add(1)
	return &echoProtocol{h, c, h.server.Served(m)}
}

type echoProtocol struct {
	host   *echoHost
	conn   engine.Conn
	number uint64
}

func (p *echoProtocol) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanPrompt }
func (p *echoProtocol) Feed([]byte) (int, engine.Next)    { return 0, engine.Run }
func (p *echoProtocol) Pause() bool                       { return true }
func (p *echoProtocol) HalfClosed(out []byte) []byte      { return append(out, "bye\n"...) }
func (p *echoProtocol) Detached(net.Conn)                 {}
func (p *echoProtocol) Closed(error)                      { p.host.family.closed.Add(1) }

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
	p.host.server.Printf("prompted, close requested: %v", p.host.server.CloseRequested()) // the test counts it
	return append(out, "prompted\n"...), engine.Read
}

func (p *echoProtocol) Sleep() (engine.Memo, bool) { return p.host.server.Memo(1, p.number, 2), true }

// TestTakeOver: another protocol has the connection after the response, and sleeps between
// its messages.
func TestTakeOver(t *testing.T) {
	for _, e := range []Engine{EngineEpoll, EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) {
			family := &echoFamily{}
			var target atomic.Pointer[engine.Target]
			var host atomic.Pointer[echoHost]
			var states atomic.Int32
			logger := &recordingLogger{}
			s := &Server{Engine: e, Logger: logger, ConnState: func(_ net.Conn, state ConnState) {
				if state == StateHijacked {
					states.Add(1)
				}
			}, Handler: func(ctx *RequestCtx) {
				ctx.SetStatusCode(StatusSwitchingProtocols)
				err := ctx.TakeOver(upgrade.Takeover{Family: family, Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
					if string(ctx.Path()) == "/nothing" {
						return nil, out
					}
					at := c.Target()
					target.Store(&at)
					host.Store(h.(*echoHost))
					return &echoProtocol{h.(*echoHost), c, 40}, append(out, "first\n"...)
				}})
				if err != nil {
					t.Error(err)
				}
			}}
			ln, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = s.Serve(ln) }()
			conn, err := net.Dial("tcp4", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			in := bufio.NewReader(conn)
			expect := func(want string) {
				t.Helper()
				if line, err := in.ReadString('\n'); line != want+"\n" {
					t.Fatalf("got %q, %v, want %q", line, err, want)
				}
			}
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			expect("HTTP/1.1 101 Switching Protocols\r")
			for line := ""; line != "\r\n"; {
				if line, err = in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			expect("first")
			for n := range 3 {
				fmt.Fprintln(conn, "x")
				expect(fmt.Sprint(41+n, " x"))
			}
			if at := *target.Load(); at.Generation != 0 {
				host.Load().server.Prompt(at)
				expect("prompted")
				if family.woken.Load() == 0 || logger.count() == 0 {
					t.Error("the connection never slept, or was not prompted")
				}
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			expect("bye")
			for _, request := range []string{"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"} {
				other, err := net.Dial("tcp4", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				_ = other.SetDeadline(time.Now().Add(20 * time.Second))
				_, _ = io.WriteString(other, request)
				if got, err := io.ReadAll(other); err != nil || strings.Contains(string(got), "first") {
					t.Errorf("%q: %q, %v", request, got, err)
				}
				other.Close()
			}
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
			if family.closed.Load() != 1 || states.Load() != 1 {
				t.Errorf("%d connections closed, %d hijacked", family.closed.Load(), states.Load())
			}
		})
	}
	if err := new(RequestCtx).TakeOver(upgrade.Takeover{}); !errors.Is(err, ErrNilConnection) {
		t.Error(err)
	}
}
