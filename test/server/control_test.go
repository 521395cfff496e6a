package server_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// enginePairs are the ways that a connection may go from server to server.
func enginePairs() [][2]sluice.Engine {
	if !harness.HasEpoll() {
		return [][2]sluice.Engine{{sluice.EnginePerConn, sluice.EnginePerConn}}
	}
	return [][2]sluice.Engine{
		{sluice.EngineEpoll, sluice.EngineEpoll},
		{sluice.EnginePerConn, sluice.EnginePerConn},
		{sluice.EngineEpoll, sluice.EnginePerConn},
	}
}

// overUnix is a unix socket.
func overUnix() harness.Network {
	return harness.Network{Name: "unix", Listen: func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		path := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return ln, func() (net.Conn, error) { return net.Dial("unix", path) }
	}}
}

// TestHandOverUnderLoad: clients that send requests back to back notice nothing
// while their connections go to and fro between two servers.
func TestHandOverUnderLoad(t *testing.T) {
	for _, engines := range enginePairs() {
		for _, n := range []harness.Network{harness.OverTCP(), overUnix()} {
			t.Run(fmt.Sprintf("%v and %v/%s", engines[0], engines[1], n.Name), func(t *testing.T) {
				handOverUnderLoad(t, engines, n, nil)
			})
		}
	}
	// EnginePerConn serves otherwise where there is a ConnState, and reads in the
	// background where there is Done.
	t.Run("perconn with ConnState", func(t *testing.T) {
		handOverUnderLoad(t, [2]sluice.Engine{sluice.EnginePerConn, sluice.EnginePerConn}, harness.OverTCP(), func(net.Conn, sluice.ConnState) {})
	})
}

func handOverUnderLoad(t *testing.T, engines [2]sluice.Engine, n harness.Network, state func(net.Conn, sluice.ConnState)) {
	const clients = 8
	leastRounds, leastMoves, leastRequests := 200, 500, int64(3000)
	if testing.Short() {
		leastRounds, leastMoves, leastRequests = 50, 125, 750
	}
	var handled atomic.Int64
	handler := func(ctx *sluice.RequestCtx) {
		if handled.Add(1)%2 == 0 {
			_ = ctx.Done()
		}
		ctx.Write(ctx.Path())
		ctx.Write(ctx.PostBody())
	}
	first := harness.Serve(t, n, &sluice.Server{Handler: handler, Engine: engines[0], ConnState: state})
	second := harness.Serve(t, n, &sluice.Server{Handler: handler, Engine: engines[1], ConnState: state})
	var stop atomic.Bool
	var asked atomic.Int64
	var running sync.WaitGroup
	for i := range clients {
		p := first.Dial()
		running.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for k := 0; !stop.Load(); k++ {
				count, err := askOddly(p, r, fmt.Sprintf("%d-%d", i, k))
				asked.Add(int64(count))
				if err != nil {
					t.Errorf("client %d, request %d: %v", i, k, err)
					return
				}
			}
		})
	}
	moves, rounds := 0, 0
	for end := time.Now().Add(harness.Patience); rounds < leastRounds || moves < leastMoves || asked.Load() < leastRequests; rounds++ {
		take, takeBack := harness.AdoptBy(t, second.Server), harness.AdoptBy(t, first.Server)
		if canDuplicate && rounds%4 == 1 {
			take, takeBack = harness.AdoptSocketBy(t, second.Server), harness.AdoptSocketBy(t, first.Server)
		}
		moves += first.Server.Control().HandOver(rounds%5-1, take)
		moves += second.Server.Control().HandOver(rounds%3-1, takeBack)
		if t.Failed() || time.Now().After(end) {
			t.Errorf("%d moves in %d rounds", moves, rounds)
			break
		}
	}
	stop.Store(true)
	running.Wait()
	if handled.Load() != asked.Load() {
		t.Errorf("%d requests were handled, %d sent", handled.Load(), asked.Load())
	}
	t.Logf("%d requests, %d moves in %d rounds", asked.Load(), moves, rounds)
}

// askOddly sends one request or two, in one piece or several, and compares the
// answers.
func askOddly(p *harness.Peer, r *rand.Rand, id string) (count int, err error) {
	count = 1 + r.IntN(4)/3
	var text strings.Builder
	for i := range count {
		text.WriteString(harness.Post(fmt.Sprintf("/%s-%d", id, i), strings.Repeat("x", r.IntN(100))+id))
	}
	rest := text.String()
	for rest != "" && err == nil {
		n := len(rest)
		if r.IntN(3) == 0 {
			n = 1 + r.IntN(n)
		}
		_, err = io.WriteString(p.Conn, rest[:n])
		rest = rest[n:]
		runtime.Gosched()
	}
	for i := 0; i < count && err == nil; i++ {
		var body string
		if body, err = readBody(p); err == nil && (!strings.HasPrefix(body, fmt.Sprintf("/%s-%d", id, i)) || !strings.HasSuffix(body, id)) {
			err = fmt.Errorf("answer %d of %q is %q", i, id, body)
		}
	}
	return count, err
}

func readBody(p *harness.Peer) (string, error) {
	resp, err := http.ReadResponse(p.R, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// TestHandOverChoosesSockets: what is more than a socket stays, and works.
func TestHandOverChoosesSockets(t *testing.T) {
	for _, n := range append([]harness.Network{harness.InMemory()}, harness.OverTLS(t, harness.OverTCPByEach()[0]), harness.OverTLS(t, harness.OverTCP().By(sluice.EnginePerConn))) {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.WriteString("ok") }})
			p := r.Dial()
			p.Get("/")
			harness.Eventually(t, "idle", func() bool { return r.Server.EngineStats().Active == 0 })
			if count := r.Server.Control().HandOver(-1, func(c net.Conn, _ sluice.Parcel) { c.Close() }); count != 0 {
				t.Errorf("%d connections were given away", count)
			}
			if got := p.Get("/"); got.Body != "ok" {
				t.Errorf("afterwards: %q", got.Body)
			}
		})
	}
}

// TestHandOverCounts: for the server that gives it away a connection has ended,
// and its limits have room again; for the other one it is new.
func TestHandOverCounts(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			states := make(chan sluice.ConnState, 100)
			options := func(states chan sluice.ConnState) *sluice.Server {
				return &sluice.Server{
					Handler: func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, ctx.LocalAddr(), " ", ctx.RemoteAddr()) },
					ConnState: func(c net.Conn, state sluice.ConnState) {
						if c.RemoteAddr() == nil || c.LocalAddr() == nil {
							t.Error("ConnState has no addresses")
						}
						states <- state
					},
					MaxConnsPerIP: 1,
				}
			}
			other := make(chan sluice.ConnState, 100)
			from, to := harness.Serve(t, n, options(states)), harness.Serve(t, n, options(other))
			p := from.Dial()
			want := fmt.Sprint(p.RemoteAddr(), " ", p.LocalAddr())
			p.Get("/")
			expectStates(t, states, sluice.StateNew, sluice.StateActive, sluice.StateIdle)
			if status := from.ConnectAndGet(); status != sluice.StatusTooManyRequests {
				t.Errorf("a second connection gets %d", status)
			}
			harness.Eventually(t, "it is given away", func() bool { return from.Server.Control().HandOver(1, harness.AdoptBy(t, to.Server)) == 1 })
			expectStates(t, states, sluice.StateClosed)
			expectStates(t, other, sluice.StateNew)
			harness.Eventually(t, "no connection is open", func() bool { return from.Server.GetOpenConnectionsCount() == 0 })
			if got := p.Get("/"); got.Body != want {
				t.Errorf("the addresses are %q, want %q", got.Body, want)
			}
			if status := from.ConnectAndGet(); status != sluice.StatusOK {
				t.Errorf("another connection gets %d", status)
			}
			if status := to.ConnectAndGet(); status != sluice.StatusTooManyRequests {
				t.Errorf("a second connection of the other server gets %d", status)
			}
		})
	}
}

func expectStates(t *testing.T, states <-chan sluice.ConnState, want ...sluice.ConnState) {
	t.Helper()
	for _, state := range want {
		if got := harness.Receive(t, states); got != state {
			t.Errorf("state %v, want %v", got, state)
		}
	}
}

// TestAdoptConn has servers adopt connections that they would not, or that come
// at the wrong time.
func TestAdoptConn(t *testing.T) {
	for _, n := range append(harness.OverTCPByEach(), harness.InMemory()) {
		t.Run(n.Name, func(t *testing.T) {
			ln, dial := n.Listen(t)
			defer ln.Close()
			pair := func() (end net.Conn, p *harness.Peer) {
				accepted := make(chan net.Conn, 1)
				go func() {
					c, _ := ln.Accept()
					accepted <- c
				}()
				client, err := dial()
				if end = <-accepted; err != nil || end == nil {
					t.Fatal("cannot connect: ", err)
				}
				t.Cleanup(func() { client.Close() })
				return end, harness.NewPeer(t, client)
			}
			end, p := pair()
			if err := new(sluice.Server).Control().AdoptConn(end, sluice.Parcel{}); err == nil {
				t.Error("a server without Handler adopts")
			}
			p.Rest()
			s := &sluice.Server{
				Handler:     func(ctx *sluice.RequestCtx) { ctx.WriteString("ok") },
				Logger:      &harness.LogBook{},
				Engine:      n.Engine,
				Concurrency: 1,
				IdleTimeout: harness.Patience,
			}
			if err := s.Shutdown(); err != nil {
				t.Fatal(err)
			}
			end, p = pair()
			if err := s.Control().AdoptConn(end, sluice.Parcel{}); !errors.Is(err, sluice.ErrServerClosed) {
				t.Errorf("after Shutdown: %v", err)
			}
			p.Rest()
			end, p = pair()
			if err := s.Serve(failingListener{net.ErrClosed}); err != nil { // it may serve again
				t.Error(err)
			}
			if err := s.Control().AdoptConn(end, sluice.Parcel{Leftover: []byte(harness.Get("/")[:5])}); err != nil {
				t.Fatal(err)
			}
			p.Send(harness.Get("/")[5:])
			if got := p.Answer("GET"); got.Body != "ok" {
				t.Errorf("answered %q", got.Body)
			}
			end, refused := pair()
			if err := s.Control().AdoptConn(end, sluice.Parcel{}); err != nil {
				t.Fatal(err)
			}
			if got := refused.Answer("GET"); got.StatusCode != sluice.StatusServiceUnavailable {
				t.Errorf("one too many gets %d", got.StatusCode)
			}
			if err := s.Shutdown(); err != nil {
				t.Fatal(err)
			}
			p.ExpectEnd()
		})
	}
}

// TestAdoptSocketAfterShutdown: the descriptor is closed then, too.
func TestAdoptSocketAfterShutdown(t *testing.T) {
	if !canDuplicate {
		t.Skip("descriptors cannot be duplicated")
	}
	ln, dial := harness.OverTCP().Listen(t)
	defer ln.Close()
	client, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	end, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	fd := harness.DuplicateOf(t, end)
	end.Close()
	s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := s.Control().AdoptSocket(fd, sluice.Parcel{}); !errors.Is(err, sluice.ErrServerClosed) {
		t.Errorf("AdoptSocket: %v", err)
	}
	harness.NewPeer(t, client).ExpectEnd()
}

// TestAdoptedAreOpen: who gives connections away until none is open finds those
// that were adopted a moment ago.
func TestAdoptedAreOpen(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			ln, dial := n.Listen(t)
			defer ln.Close()
			s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}, Engine: n.Engine, Concurrency: 50, Logger: &harness.LogBook{}}
			defer s.Shutdown()
			var ends []net.Conn
			for range 100 {
				client, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				end, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				ends = append(ends, end)
			}
			for i, end := range ends[:50] {
				if err := s.Control().AdoptConn(end, sluice.Parcel{}); err != nil {
					t.Fatal(err)
				}
				if open := s.GetOpenConnectionsCount(); open != int32(i+1) {
					t.Fatalf("%d connections are open, %d were adopted", open, i+1)
				}
			}
			for _, end := range ends[50:] { // refused
				if err := s.Control().AdoptConn(end, sluice.Parcel{}); err != nil {
					t.Fatal(err)
				}
			}
			harness.Eventually(t, "50 are left", func() bool { return s.GetOpenConnectionsCount() == 50 && s.GetCurrentConcurrency() == 50 })
			given := 0
			harness.Eventually(t, "all are given away", func() bool {
				given += s.Control().HandOver(-1, func(c net.Conn, _ sluice.Parcel) { c.Close() })
				return s.GetOpenConnectionsCount() == 0
			})
			if given != 50 {
				t.Errorf("%d were given away", given)
			}
		})
	}
}

// TestAdoptConnTimes: an adopted connection has as long to send as another one.
func TestAdoptConnTimes(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			handler := func(ctx *sluice.RequestCtx) {
				if ctx.QueryArgs().Has("hijack") {
					ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "hijacked") })
				}
			}
			from := harness.Serve(t, n, &sluice.Server{Handler: handler})
			to := harness.Serve(t, n, &sluice.Server{Handler: handler, IdleTimeout: 50 * time.Millisecond})
			move := func() *harness.Peer {
				p := from.Dial()
				p.Get("/")
				harness.Eventually(t, "it is given away", func() bool { return from.Server.Control().HandOver(-1, harness.AdoptBy(t, to.Server)) == 1 })
				return p
			}
			move().ExpectEnd()
			p := from.Dial()
			p.Get("/")
			harness.Eventually(t, "it is given away", func() bool {
				return from.Server.Control().HandOver(-1, func(c net.Conn, _ sluice.Parcel) {
					if err := to.Server.Control().AdoptConn(c, sluice.Parcel{Leftover: []byte(harness.Get("/?hijack"))}); err != nil {
						t.Error(err)
					}
				}) == 1
			})
			if got := p.Rest(); !strings.HasSuffix(got, "hijacked") {
				t.Errorf("a hijack handler's words arrive as %q", got)
			}
		})
	}
}

func TestAdoptNoSocket(t *testing.T) {
	for _, e := range []sluice.Engine{sluice.EnginePerConn, sluice.EngineAuto} {
		s := &sluice.Server{Engine: e, Handler: func(*sluice.RequestCtx) {}}
		for _, fd := range []int{-1, 1 << 20} {
			if err := s.Control().AdoptSocket(fd, sluice.Parcel{}); err == nil {
				t.Errorf("%v: adopted descriptor %d", e, fd)
			}
		}
	}
}
