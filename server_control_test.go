package sluice_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// enginePairs are the ways that a connection may go from server to server.
func enginePairs() [][2]sluice.Engine {
	if !hasEpoll() {
		return [][2]sluice.Engine{{sluice.EnginePerConn, sluice.EnginePerConn}}
	}
	return [][2]sluice.Engine{
		{sluice.EngineEpoll, sluice.EngineEpoll},
		{sluice.EnginePerConn, sluice.EnginePerConn},
		{sluice.EngineEpoll, sluice.EnginePerConn},
	}
}

// overUnix is a unix socket.
func overUnix() network {
	return network{name: "unix", listen: func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		path := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return ln, func() (net.Conn, error) { return net.Dial("unix", path) }
	}}
}

// adoptBy returns what HandOver is to call for s to serve the connection on.
func adoptBy(t *testing.T, s *sluice.Server) func(net.Conn, sluice.Parcel) {
	return func(c net.Conn, p sluice.Parcel) {
		if err := s.Control().AdoptConn(c, p); err != nil {
			t.Errorf("AdoptConn: %v", err)
		}
	}
}

// adoptSocketBy is adoptBy by descriptor.
func adoptSocketBy(t *testing.T, s *sluice.Server) func(net.Conn, sluice.Parcel) {
	return func(c net.Conn, p sluice.Parcel) {
		defer c.Close()
		if err := s.Control().AdoptSocket(duplicateOf(t, c), p); err != nil {
			t.Errorf("AdoptSocket: %v", err)
		}
	}
}

// duplicateOf returns a descriptor that nobody owns, of c's open file.
func duplicateOf(t *testing.T, c net.Conn) int {
	t.Helper()
	file, err := c.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return duplicate(int(file.Fd()))
}

// TestHandOverUnderLoad: clients that send requests back to back notice nothing
// while their connections go to and fro between two servers.
func TestHandOverUnderLoad(t *testing.T) {
	for _, engines := range enginePairs() {
		for _, n := range []network{overTCP(), overUnix()} {
			t.Run(fmt.Sprintf("%v and %v/%s", engines[0], engines[1], n.name), func(t *testing.T) {
				handOverUnderLoad(t, engines, n, nil)
			})
		}
	}
	// EnginePerConn serves otherwise where there is a ConnState, and reads in the
	// background where there is Done.
	t.Run("perconn with ConnState", func(t *testing.T) {
		handOverUnderLoad(t, [2]sluice.Engine{sluice.EnginePerConn, sluice.EnginePerConn}, overTCP(), func(net.Conn, sluice.ConnState) {})
	})
}

func handOverUnderLoad(t *testing.T, engines [2]sluice.Engine, n network, state func(net.Conn, sluice.ConnState)) {
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
	first := serve(t, n, &sluice.Server{Handler: handler, Engine: engines[0], ConnState: state})
	second := serve(t, n, &sluice.Server{Handler: handler, Engine: engines[1], ConnState: state})
	var stop atomic.Bool
	var asked atomic.Int64
	var running sync.WaitGroup
	for i := range clients {
		p := first.dial()
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
	for end := time.Now().Add(patience); rounds < leastRounds || moves < leastMoves || asked.Load() < leastRequests; rounds++ {
		take, takeBack := adoptBy(t, second.server), adoptBy(t, first.server)
		if canDuplicate && rounds%4 == 1 {
			take, takeBack = adoptSocketBy(t, second.server), adoptSocketBy(t, first.server)
		}
		moves += first.server.Control().HandOver(rounds%5-1, take)
		moves += second.server.Control().HandOver(rounds%3-1, takeBack)
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
func askOddly(p *peer, r *rand.Rand, id string) (count int, err error) {
	count = 1 + r.IntN(4)/3
	var text strings.Builder
	for i := range count {
		text.WriteString(post(fmt.Sprintf("/%s-%d", id, i), strings.Repeat("x", r.IntN(100))+id))
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

func readBody(p *peer) (string, error) {
	resp, err := http.ReadResponse(p.r, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// TestHandOverChoosesSockets: what is more than a socket stays, and works.
func TestHandOverChoosesSockets(t *testing.T) {
	for _, n := range append([]network{inMemory()}, overTLS(t, overTCPByEach()[0]), overTLS(t, overTCP().by(sluice.EnginePerConn))) {
		t.Run(n.name, func(t *testing.T) {
			r := serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.WriteString("ok") }})
			p := r.dial()
			p.get("/")
			eventually(t, "idle", func() bool { return r.server.EngineStats().Active == 0 })
			if count := r.server.Control().HandOver(-1, func(c net.Conn, _ sluice.Parcel) { c.Close() }); count != 0 {
				t.Errorf("%d connections were given away", count)
			}
			if got := p.get("/"); got.body != "ok" {
				t.Errorf("afterwards: %q", got.body)
			}
		})
	}
}

// TestHandOverCounts: for the server that gives it away a connection has ended,
// and its limits have room again; for the other one it is new.
func TestHandOverCounts(t *testing.T) {
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
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
			from, to := serve(t, n, options(states)), serve(t, n, options(other))
			p := from.dial()
			want := fmt.Sprint(p.RemoteAddr(), " ", p.LocalAddr())
			p.get("/")
			expectStates(t, states, sluice.StateNew, sluice.StateActive, sluice.StateIdle)
			if status := from.connectAndGet(); status != sluice.StatusTooManyRequests {
				t.Errorf("a second connection gets %d", status)
			}
			eventually(t, "it is given away", func() bool { return from.server.Control().HandOver(1, adoptBy(t, to.server)) == 1 })
			expectStates(t, states, sluice.StateClosed)
			expectStates(t, other, sluice.StateNew)
			eventually(t, "no connection is open", func() bool { return from.server.GetOpenConnectionsCount() == 0 })
			if got := p.get("/"); got.body != want {
				t.Errorf("the addresses are %q, want %q", got.body, want)
			}
			if status := from.connectAndGet(); status != sluice.StatusOK {
				t.Errorf("another connection gets %d", status)
			}
			if status := to.connectAndGet(); status != sluice.StatusTooManyRequests {
				t.Errorf("a second connection of the other server gets %d", status)
			}
		})
	}
}

func expectStates(t *testing.T, states <-chan sluice.ConnState, want ...sluice.ConnState) {
	t.Helper()
	for _, state := range want {
		if got := receive(t, states); got != state {
			t.Errorf("state %v, want %v", got, state)
		}
	}
}

// TestAdoptConn has servers adopt connections that they would not, or that come
// at the wrong time.
func TestAdoptConn(t *testing.T) {
	for _, n := range append(overTCPByEach(), inMemory()) {
		t.Run(n.name, func(t *testing.T) {
			ln, dial := n.listen(t)
			defer ln.Close()
			pair := func() (end net.Conn, p *peer) {
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
				return end, newPeer(t, client)
			}
			end, p := pair()
			if err := new(sluice.Server).Control().AdoptConn(end, sluice.Parcel{}); err == nil {
				t.Error("a server without Handler adopts")
			}
			p.rest()
			s := &sluice.Server{
				Handler:     func(ctx *sluice.RequestCtx) { ctx.WriteString("ok") },
				Logger:      &logBook{},
				Engine:      n.engine,
				Concurrency: 1,
				IdleTimeout: patience,
			}
			if err := s.Shutdown(); err != nil {
				t.Fatal(err)
			}
			end, p = pair()
			if err := s.Control().AdoptConn(end, sluice.Parcel{}); !errors.Is(err, sluice.ErrServerClosed) {
				t.Errorf("after Shutdown: %v", err)
			}
			p.rest()
			end, p = pair()
			if err := s.Serve(failingListener{net.ErrClosed}); err != nil { // it may serve again
				t.Error(err)
			}
			if err := s.Control().AdoptConn(end, sluice.Parcel{Leftover: []byte(get("/")[:5])}); err != nil {
				t.Fatal(err)
			}
			p.send(get("/")[5:])
			if got := p.answer("GET"); got.body != "ok" {
				t.Errorf("answered %q", got.body)
			}
			end, refused := pair()
			if err := s.Control().AdoptConn(end, sluice.Parcel{}); err != nil {
				t.Fatal(err)
			}
			if got := refused.answer("GET"); got.StatusCode != sluice.StatusServiceUnavailable {
				t.Errorf("one too many gets %d", got.StatusCode)
			}
			if err := s.Shutdown(); err != nil {
				t.Fatal(err)
			}
			p.expectEnd()
		})
	}
}

// TestAdoptSocketAfterShutdown: the descriptor is closed then, too.
func TestAdoptSocketAfterShutdown(t *testing.T) {
	if !canDuplicate {
		t.Skip("descriptors cannot be duplicated")
	}
	ln, dial := overTCP().listen(t)
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
	fd := duplicateOf(t, end)
	end.Close()
	s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := s.Control().AdoptSocket(fd, sluice.Parcel{}); !errors.Is(err, sluice.ErrServerClosed) {
		t.Errorf("AdoptSocket: %v", err)
	}
	newPeer(t, client).expectEnd()
}

// TestAdoptedAreOpen: who gives connections away until none is open finds those
// that were adopted a moment ago.
func TestAdoptedAreOpen(t *testing.T) {
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
			ln, dial := n.listen(t)
			defer ln.Close()
			s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}, Engine: n.engine, Concurrency: 50, Logger: &logBook{}}
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
			eventually(t, "50 are left", func() bool { return s.GetOpenConnectionsCount() == 50 && s.GetCurrentConcurrency() == 50 })
			given := 0
			eventually(t, "all are given away", func() bool {
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
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
			handler := func(ctx *sluice.RequestCtx) {
				if ctx.QueryArgs().Has("hijack") {
					ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "hijacked") })
				}
			}
			from := serve(t, n, &sluice.Server{Handler: handler})
			to := serve(t, n, &sluice.Server{Handler: handler, IdleTimeout: 50 * time.Millisecond})
			move := func() *peer {
				p := from.dial()
				p.get("/")
				eventually(t, "it is given away", func() bool { return from.server.Control().HandOver(-1, adoptBy(t, to.server)) == 1 })
				return p
			}
			move().expectEnd()
			p := from.dial()
			p.get("/")
			eventually(t, "it is given away", func() bool {
				return from.server.Control().HandOver(-1, func(c net.Conn, _ sluice.Parcel) {
					if err := to.server.Control().AdoptConn(c, sluice.Parcel{Leftover: []byte(get("/?hijack"))}); err != nil {
						t.Error(err)
					}
				}) == 1
			})
			if got := p.rest(); !strings.HasSuffix(got, "hijacked") {
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
