package prefork

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/shared"
)

// Orders that arrive while a worker drains: which of them end it, and when.
func TestOrdersWhileDraining(t *testing.T) {
	const never = time.Hour
	for _, c := range []struct {
		name       string
		order      supervise.Order // none: the master has died
		ends       time.Duration
		abandoned  int
		reopened   int
		closesFile bool
	}{
		{name: "quit", order: supervise.Order{Kind: supervise.OrderQuit}},
		{name: "less time", order: supervise.Order{Kind: supervise.OrderDrain, Grace: 1, HasSuccessor: true}, ends: 1},
		{name: "no successor any more", order: supervise.Order{Kind: supervise.OrderDrain, Grace: time.Minute}, ends: time.Minute, abandoned: 1},
		{name: "a signal", order: supervise.Order{Kind: supervise.OrderDrain, HasSuccessor: true}, ends: never},
		{name: "reopen", order: supervise.Order{Kind: supervise.OrderReopen}, ends: never, reopened: 1},
		{name: "adopt", order: supervise.Order{Kind: supervise.OrderAdopt}, ends: never, closesFile: true},
		{name: "release", order: supervise.Order{Kind: supervise.OrderRelease}, ends: never},
		{name: "the master has died", ends: 9 * time.Second, abandoned: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			reopened, abandoned := 0, 0
			l := newFakeLink()
			w := &worker{link: l, prefork: &Prefork{Logger: quiet(), OnReopen: func() error { reopened++; return nil }}}
			ctx, cancel := context.WithTimeout(context.Background(), never)
			began := time.Now()
			heeded := make(chan struct{})
			go func() {
				w.heed(ctx, cancel, func() { abandoned++ })
				close(heeded)
			}()
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			c.order.Files = []*os.File{f}
			if c.order.Kind > 0 {
				l.orders <- c.order
			} else {
				close(l.orphaned)
			}
			<-heeded
			if took := time.Since(began); took != c.ends || abandoned != c.abandoned || reopened != c.reopened {
				t.Errorf("%s: it ended after %v, abandoned %d times, reopened %d times", c.name, took, abandoned, reopened)
			}
			if err := f.Close(); (err != nil) != c.closesFile {
				t.Errorf("%s: closing its file: %v", c.name, err)
			}
		})
	}
}

// drainingWorker returns a worker without a server on a board of its own.
func drainingWorker(t *testing.T, s *shared.Segment) (*worker, *fakeLink) {
	l := newFakeLink()
	return &worker{
		prefork: &Prefork{Logger: quiet()}, link: l, board: newBoard(s, WorkerInfo{Slot: 3, Generation: 7}),
		adopted: map[int][]net.Listener{}, released: map[net.Listener]bool{}, results: make(chan result), mourned: make(chan struct{}),
	}, l
}

// How long a worker takes to end, and what it does meanwhile.
func TestEnding(t *testing.T) {
	const inHand, none = 20 * time.Second, "drained {Finished:0 HandedOver:0 Cut:0}"
	drain := func(o supervise.Order) func(*worker) error { return func(w *worker) error { return w.drain(o) } }
	for _, c := range []struct {
		name   string
		change func(*worker, *fakeLink)
		end    func(*worker) error
		takes  time.Duration
		want   string // what the master hears
	}{
		{"nothing to do", func(w *worker, _ *fakeLink) { w.prefork.Drain = nil }, drain(supervise.Order{}), 0, "stop receiving true, " + none},
		{"with a successor", func(w *worker, _ *fakeLink) { w.prefork.Drain = nil }, drain(supervise.Order{HasSuccessor: true}), 0, "stop receiving false, drained {Finished:0 HandedOver:0 Cut:0}"},
		{"requests", func(*worker, *fakeLink) {}, drain(supervise.Order{Grace: time.Minute}), inHand, "stop receiving true, " + none},
		{"too long", func(*worker, *fakeLink) {}, drain(supervise.Order{Grace: 1}), 1, "stop receiving true, " + none},
		{"a signal", func(w *worker, _ *fakeLink) { w.prefork.DrainTimeout = 3 * time.Second }, drain(supervise.Order{}), 3 * time.Second, "stop receiving true, " + none},
		{"told to quit", func(w *worker, l *fakeLink) {
			go func() {
				time.Sleep(time.Second)
				l.orders <- supervise.Order{Kind: supervise.OrderQuit}
			}()
		}, drain(supervise.Order{Grace: time.Minute}), time.Second, "stop receiving true, " + none},
		{"orphaned", func(w *worker, l *fakeLink) { l.orphanGrace = 2 * time.Second }, (*worker).orphaned, 2 * time.Second, "stop receiving true, " + none},
		{"orphaned, and OnMasterDeath takes long", func(w *worker, l *fakeLink) {
			l.orphanGrace, l.err, w.prefork.Drain = 2*time.Second, errors.New("gone"), nil
		}, (*worker).orphaned, 2 * time.Second, "stop receiving true, " + none},
		{"orphaned, and OnMasterDeath returns", func(w *worker, l *fakeLink) {
			l.err, w.prefork.Drain = errors.New("gone"), nil
			time.AfterFunc(time.Second, func() { close(w.mourned) })
		}, (*worker).orphaned, time.Second, "stop receiving true, " + none},
		{"connections are on their way", func(w *worker, _ *fakeLink) {
			w.prefork.Drain = nil
			w.board.page.Set(shared.Inbound, 1)
			time.AfterFunc(4*drainPollInterval-1, func() { w.board.page.Set(shared.Inbound, 0) })
		}, drain(supervise.Order{}), 20 * time.Millisecond, "stop receiving true, " + none},
		{"connections were lost on their way", func(w *worker, _ *fakeLink) { w.prefork.Drain = nil; w.board.page.Set(shared.Inbound, 1) },
			drain(supervise.Order{}), 100 * time.Millisecond, "stop receiving true, " + none},
		{"a successor gets what is on its way", func(w *worker, _ *fakeLink) { w.prefork.Drain = nil; w.board.page.Set(shared.Inbound, 1) },
			drain(supervise.Order{HasSuccessor: true}), 0, "stop receiving false, drained {Finished:0 HandedOver:0 Cut:0}"},
	} {
		segment := localSegment(t)
		synctest.Test(t, func(t *testing.T) {
			w, l := drainingWorker(t, segment)
			drains, state := 0, uint64(0)
			w.prefork.OnDrain = func() { drains++; state = w.board.page.Get(shared.ProcessState) }
			w.prefork.Drain = func(ctx context.Context) error {
				select {
				case <-ctx.Done():
				case <-time.After(inHand):
				}
				return ctx.Err()
			}
			c.change(w, l)
			began := time.Now()
			err := c.end(w)
			if took := time.Since(began); took != c.takes || err != nil || drains != 1 {
				t.Errorf("%s: it took %v, want %v; %v; OnDrain was called %d times", c.name, took, c.takes, err, drains)
			}
			if got := l.noted(); got != c.want {
				t.Errorf("%s: the master hears %q, want %q", c.name, got, c.want)
			}
			if end := w.board.page.Get(shared.ProcessState); shared.State(state) != shared.Draining || shared.State(end) != shared.Stopped {
				t.Errorf("%s: the states were %d and %d", c.name, state, end)
			}
			close(w.results)
		})
	}
}

// Without a successor, a worker accepts what waits in its sockets, for a second at most.
func TestQueuesAreEmptied(t *testing.T) {
	for _, c := range []struct {
		accepts      time.Duration // when the connection is accepted; 0: never
		hasSuccessor bool
		takes        time.Duration
	}{{0, false, time.Second}, {4*drainPollInterval - 1, false, 4 * drainPollInterval}, {0, true, 0}} {
		segment := localSegment(t)
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		client, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		until(t, "the connection waits", func() bool { return !isQueueEmpty(ln) })
		synctest.Test(t, func(t *testing.T) {
			w, _ := drainingWorker(t, segment)
			w.own = []net.Listener{ln}
			stopped := make(chan time.Time, 1)
			w.prefork.OnDrain = func() { stopped <- time.Now() }
			if c.accepts > 0 {
				time.AfterFunc(c.accepts, func() {
					if conn, err := ln.Accept(); err == nil {
						conn.Close()
					}
				})
			}
			began := time.Now()
			w.drain(supervise.Order{Grace: time.Minute, HasSuccessor: c.hasSuccessor})
			if took := (<-stopped).Sub(began); took != c.takes {
				t.Errorf("%+v: it stopped after %v", c, took)
			}
			close(w.results)
		})
		if err := ln.Close(); err == nil {
			t.Errorf("%+v: it still listens", c)
		}
	}
}

// The poll of connections that no server owns sees their end soon.
func TestOthersArePolled(t *testing.T) {
	w, conns, _ := openConns(t, 1)
	segment := localSegment(t)
	synctest.Test(t, func(t *testing.T) {
		w.link, w.board = newFakeLink(), newBoard(segment, WorkerInfo{})
		time.AfterFunc(49*time.Millisecond, func() { conns[0].Close() })
		began, stats := time.Now(), supervise.DrainStats{}
		w.finishOthers(t.Context(), &stats)
		if took := time.Since(began); took != 50*time.Millisecond || stats != (supervise.DrainStats{Finished: 1}) {
			t.Errorf("%+v after %v", stats, took)
		}
	})
}

// servingWorker returns a worker whose server has n idle connections and, if isBusy, one
// with a request that ends with the test. It returns the clients.
func servingWorker(t *testing.T, segment *shared.Segment, n int, isBusy, isHTTP2 bool) (*worker, *fakeLink, []net.Conn) {
	ending := make(chan struct{})
	t.Cleanup(func() { close(ending) })
	s := &sluice.Server{
		Engine: sluice.EnginePerConn, Logger: quiet(), HTTP2: sluice.HTTP2Config{Disable: !isHTTP2},
		Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/busy" {
				<-ending
			}
		},
	}
	w, l := drainingWorker(t, segment)
	l.slots = 4
	w.prefork.server = s
	var clients []net.Conn
	for range n {
		client, conn := net.Pipe()
		if err := s.Control().AdoptConn(conn, sluice.Parcel{}); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	if isBusy {
		client, conn := net.Pipe()
		if err := s.Control().AdoptConn(conn, sluice.Parcel{}); err != nil {
			t.Fatal(err)
		}
		client.Write([]byte("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n"))
		clients = append(clients, client)
	}
	synctest.Wait()
	return w, l, clients
}

// What becomes of a server's connections, how long it takes, and how they are counted.
func TestServersConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		idle   int
		isBusy bool
		order  supervise.Order
		change func(*worker, *fakeLink)
		takes  time.Duration
		want   string
		cut    uint64 // on the scoreboard
	}{
		{"idle", 2, false, supervise.Order{Grace: time.Minute}, nil, 50 * time.Millisecond, "stop receiving true, drained {Finished:2 HandedOver:0 Cut:0}", 0},
		{"one is busy", 2, true, supervise.Order{Grace: time.Minute}, nil, time.Minute, "stop receiving true, drained {Finished:2 HandedOver:0 Cut:1}", 1},
		{"none", 0, false, supervise.Order{Grace: time.Minute}, nil, 0, "stop receiving true, drained {Finished:0 HandedOver:0 Cut:0}", 0},
		{"they cannot move", 2, false, supervise.Order{Grace: time.Minute, HasSuccessor: true}, nil, 10 * time.Second, "stop receiving false, drained {Finished:2 HandedOver:0 Cut:0}", 0},
		{"the successor ends", 2, false, supervise.Order{Grace: time.Minute, HasSuccessor: true}, func(w *worker, l *fakeLink) {
			time.AfterFunc(time.Second, func() { l.orders <- supervise.Order{Kind: supervise.OrderDrain, Grace: time.Minute} })
		}, time.Second + 50*time.Millisecond, "stop receiving false, take back, drained {Finished:2 HandedOver:0 Cut:0}", 0},
		{"of TLS", 2, false, supervise.Order{Grace: time.Minute, HasSuccessor: true}, func(w *worker, l *fakeLink) { w.isTLS = true },
			5 * time.Second, "stop receiving false, drained {Finished:2 HandedOver:0 Cut:0}", 0},
		{"without inboxes", 2, false, supervise.Order{Grace: time.Minute, HasSuccessor: true}, func(w *worker, l *fakeLink) { l.slots = 0 },
			5 * time.Second, "stop receiving false, drained {Finished:2 HandedOver:0 Cut:0}", 0},
	} {
		segment := localSegment(t)
		synctest.Test(t, func(t *testing.T) {
			w, l, clients := servingWorker(t, segment, c.idle, c.isBusy, false)
			if c.change != nil {
				c.change(w, l)
			}
			w.prefork.ShutdownGracePeriod = time.Minute
			began := time.Now()
			w.drain(c.order)
			if took := time.Since(began); took != c.takes {
				t.Errorf("%s: it took %v, want %v", c.name, took, c.takes)
			}
			if got := l.noted(); got != c.want {
				t.Errorf("%s: the master hears %q, want %q", c.name, got, c.want)
			}
			if cut := w.board.page.Get(shared.Cut); cut != c.cut {
				t.Errorf("%s: %d were cut", c.name, cut)
			}
			for i, client := range clients {
				if _, err := client.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s: connection %d is open: %v", c.name, i, err)
				}
			}
			close(w.results)
		})
	}
}

// handshaking is an attached protocol with clients that are slow with their handshakes.
type handshaking struct{ clients atomic.Int64 }

func (h *handshaking) CloseOnNextResponse()           {}
func (h *handshaking) Shutdown(context.Context) error { return nil }
func (h *handshaking) Stats() server.AttachedStats    { return server.AttachedStats{} }
func (h *handshaking) Handshakes() int                { return int(h.clients.Load()) }

// A worker that is replaced waits for handshakes of HTTP/3, but no longer than for connections.
func TestHandshakesAreAwaited(t *testing.T) {
	const never = time.Hour
	for _, c := range []struct {
		name          string
		end           time.Duration // of the handshakes
		hasSuccessor  bool
		successorEnds time.Duration
		takes         time.Duration
	}{
		{"they end", 3*time.Second - 1, true, never, 3 * time.Second},
		{"they do not end", never, true, never, defaultIdleLinger},
		{"the successor ends", never, true, time.Second, time.Second},
		{"no successor", never, false, never, stopLinger},
	} {
		segment := localSegment(t)
		synctest.Test(t, func(t *testing.T) {
			w, l, _ := servingWorker(t, segment, 0, false, false)
			h := &handshaking{}
			h.clients.Store(2)
			if _, err := w.prefork.server.Control().Value(server.AttachKey{}).(server.Attacher).Attach(h); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(c.end, func() { h.clients.Store(0) })
			time.AfterFunc(c.successorEnds, func() { l.orders <- supervise.Order{Kind: supervise.OrderDrain, Grace: time.Minute} })
			began := time.Now()
			w.drain(supervise.Order{Grace: time.Minute, HasSuccessor: c.hasSuccessor})
			if took := time.Since(began); took != c.takes {
				t.Errorf("%s: it took %v, want %v", c.name, took, c.takes)
			}
			close(w.results)
		})
	}
}

// While a worker hands over, the connections that stay are told to end in the second half of
// the time.
func TestHandingOverEndsInTime(t *testing.T) {
	for _, disable := range []bool{true, false} {
		segment := localSegment(t)
		synctest.Test(t, func(t *testing.T) {
			w, _, clients := servingWorker(t, segment, 1, false, !disable)
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			began := time.Now()
			go func() {
				r := bufio.NewReader(clients[0])
				for _, wait := range []time.Duration{4*time.Second - 1, 2} {
					time.Sleep(wait)
					_, closes, err := ask(clients[0], r, "/")
					if want := time.Since(began) > 4*time.Second; closes != want || err != nil {
						t.Errorf("HTTP/2 disabled: %v: after %v it closes: %v, %v", disable, time.Since(began), closes, err)
					}
				}
			}()
			n := w.handOver(ctx)
			if took := time.Since(began); n != 0 || took != 4*time.Second+handOverInterval {
				t.Errorf("HTTP/2 disabled: %v: %d after %v", disable, n, took)
			}
			w.prefork.server.Shutdown()
		})
	}
}

// Connections go to the successor, otherwise to a sibling that is told of them, otherwise
// they stay.
func TestWhoGetsConnections(t *testing.T) {
	for _, c := range []struct {
		name        string
		conns       int
		full        [2]bool // the inboxes of both slots
		want        [2]int
		siblingGone bool
	}{
		{name: "the successor", conns: 300, want: [2]int{300, 0}},
		{name: "a sibling", conns: 2, full: [2]bool{true, false}, want: [2]int{0, 2}},
		{name: "a sibling ends", conns: 2, full: [2]bool{true, false}, siblingGone: true},
		{name: "no successor", conns: 2, full: [2]bool{true, true}},
	} {
		b, pages := boardWith(t, sibling{state: shared.Ready})
		if c.siblingGone {
			pages[0].Set(shared.ProcessState, uint64(shared.Draining))
		}
		w, conns, clients := openConns(t, c.conns)
		s := &sluice.Server{HTTP2: sluice.HTTP2Config{Disable: true}, Handler: func(*sluice.RequestCtx) {}}
		defer s.Shutdown()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		l, got := newFakeLink(), [2]int{}
		l.slot, l.slots = 0, 2
		l.post = func(slot, _ int, parcel []byte, wait time.Duration) error {
			to, p, ok := parseParcel(parcel)
			if want := []int{0, pages[0].PID()}[slot]; to.announcedTo != want || len(p.Leftover) > 0 || len(p.State) > 0 || !ok || (wait == postPatience) != (slot == 0) {
				t.Errorf("%s: slot %d gets a parcel of %d: %+v, %v; waits %v", c.name, slot, to.announcedTo, p, ok, wait)
			}
			if c.full[slot] {
				if slot == 1 || c.siblingGone {
					cancel()
				}
				return supervise.ErrInboxFull
			}
			got[slot]++
			return nil
		}
		w.link, w.board, w.prefork.server = l, b, s
		for _, conn := range conns {
			if err := s.Control().AdoptConn(conn, sluice.Parcel{}); err != nil {
				t.Fatal(err)
			}
		}
		n := w.handOver(ctx)
		cancel()
		if got != c.want || n != got[0]+got[1] {
			t.Errorf("%s: %d are handed over, to slots %v", c.name, n, got)
		}
		if open, inbound := int(s.GetOpenConnectionsCount()), int(pages[0].Get(shared.Inbound)); open != c.conns-n || inbound != got[1] {
			t.Errorf("%s: %d are open, %d on their way", c.name, open, inbound)
		}
		for _, client := range clients {
			client.SetDeadline(time.Now().Add(patience))
			if n > 0 { // the other process serves it
				if _, err := client.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("%s: the connection is open here, too: %v", c.name, err)
				}
			} else if _, closes, err := ask(client, bufio.NewReader(client), "/"); closes || err != nil {
				t.Errorf("%s: the answer: closes %v, %v", c.name, closes, err)
			}
		}
	}
}
