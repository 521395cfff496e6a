package websocket

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// members opens count connections to e.
func members(t *testing.T, f *fixture, conns chan *Conn, count int) (clients []*client, all []*Conn) {
	for range count {
		clients = append(clients, f.dial())
		all = append(all, <-conns)
	}
	return clients, all
}

// TestBroadcast: idle members, and one that is in a callback, get the message once.
func TestBroadcast(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var g, other Group
		emptied := make(chan bool, 10)
		g.OnEmpty = func() { emptied <- true }
		entered, goOn := make(chan bool), make(chan bool)
		f, conns := opened(t, engine, &Endpoint{OnMessage: func(*Conn, Message) error {
			entered <- true
			<-goOn
			return nil
		}})
		clients, all := members(t, f, conns, 600) // more than two batches
		for _, c := range all {
			for range 2 { // the second time changes nothing
				if err := errors.Join(g.Add(c), other.Add(c)); err != nil {
					t.Fatal(err)
				}
			}
		}
		clients[3].raw(masked(ws.OpText, "busy"))
		<-entered
		if n := g.Broadcast(Prepare(Text, []byte("one")), all[5]); n != 599 {
			t.Errorf("the message went to %d", n)
		}
		goOn <- true
		if !g.Remove(all[7]) || g.Remove(all[7]) {
			t.Error("Remove does not tell who was a member")
		}
		g.Broadcast(Prepare(Text, []byte("two")), nil)
		other.Broadcast(Prepare(Binary, []byte("last")), nil)
		for i, c := range clients {
			if i != 5 {
				c.expect("text one")
			}
			if i != 7 {
				c.expect("text two")
			}
			c.expect("binary last")
		}
		if g.Len() != 599 || other.Len() != 600 {
			t.Errorf("there are %d and %d members", g.Len(), other.Len())
		}
		visited := 0
		g.Range(func(*Conn) bool { visited++; return visited < 10 })
		if visited != 10 {
			t.Errorf("%d members were visited", visited)
		}
		for i, c := range all {
			if i%2 == 0 {
				g.Remove(c)
			} else {
				_ = c.Close(CodeNormal, "")
				clients[i].raw(closing(1000, ""))
			}
		}
		<-emptied
		if n := g.Broadcast(Prepare(Text, nil), nil); n != 0 || g.Len() != 0 || g.Add(all[1]) != ErrClosed {
			t.Errorf("%d members remain", n)
		}
	})
}

// TestGroupModel: any order of Add, Remove and ends leaves the right members.
// long: the steps of one model
func TestGroupModel(t *testing.T) {
	h := (&Endpoint{}).settings().NewHost(fakeServer{}).(*host)
	var conns []*Conn
	var sessions []*session
	for range 40 {
		p, _ := h.open(&fakeConn{}, nil, opening{})
		sessions = append(sessions, p.(*session))
		conns = append(conns, p.(*session).conn)
	}
	r := rand.New(rand.NewPCG(1, 2))
	groups := make([]Group, 4)
	model := make([]map[*Conn]bool, len(groups))
	for i := range model {
		model[i] = map[*Conn]bool{}
	}
	check := func(what string) {
		t.Helper()
		for i := range groups {
			seen := map[*Conn]bool{}
			groups[i].Range(func(c *Conn) bool {
				if seen[c] || !model[i][c] {
					t.Fatalf("%s: a connection is a member that should not be", what)
				}
				seen[c] = true
				return true
			})
			if len(seen) != len(model[i]) || groups[i].Len() != len(seen) {
				t.Fatalf("%s: there are %d members, want %d", what, len(seen), len(model[i]))
			}
		}
	}
	for step := range 20_000 {
		at, c := r.IntN(len(groups)), conns[r.IntN(len(conns))]
		g := &groups[at]
		switch r.IntN(5) {
		case 0, 1:
			if err := g.Add(c); err != nil {
				t.Fatal(err)
			}
			model[at][c] = true
		case 2, 3:
			if g.Remove(c) != model[at][c] {
				t.Fatal("Remove is wrong")
			}
			delete(model[at], c)
		case 4: // as during a broadcast
			g.mu.Lock()
			g.isCast = true
			g.mu.Unlock()
			for range r.IntN(10) {
				c := conns[r.IntN(len(conns))]
				if g.Remove(c) != model[at][c] {
					t.Fatal("Remove is wrong")
				}
				delete(model[at], c)
			}
			g.mu.Lock()
			g.isCast = false
			g.fillAllLocked()
			g.mu.Unlock()
		}
		if step%50 == 0 {
			check(fmt.Sprint("step ", step))
		}
	}
	for i, s := range sessions[:20] {
		s.Closed(nil)
		for at := range model {
			delete(model[at], conns[i])
		}
	}
	check("ends")
}

// TestOrderOfBroadcasts: all members see the messages of several goroutines in one order,
// while others come and go.
func TestOrderOfBroadcasts(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		const senders, each = 4, 100
		var g Group
		f, conns := opened(t, engine, &Endpoint{MaxPending: 1 << 20, OnMessage: echoMessage})
		clients, all := members(t, f, conns, 20)
		for _, c := range all {
			_ = g.Add(c)
		}
		var sending, moving sync.WaitGroup
		done := make(chan bool)
		_, restless := members(t, f, conns, 5)
		for _, c := range restless {
			moving.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_ = g.Add(c)
						g.Remove(c)
					}
				}
			})
		}
		for s := range senders {
			sending.Go(func() {
				for i := range each {
					g.Broadcast(Prepare(Text, []byte(fmt.Sprintf("%d %d", s, i))), nil)
				}
			})
		}
		var first []string
		for i, c := range clients {
			var next [senders]int
			for n := range senders * each {
				got := c.next()
				if i == 0 {
					first = append(first, got)
				} else if first[n] != got {
					t.Fatalf("member %d got %q, the first one %q", i, got, first[n])
				}
				sender, number, _ := strings.Cut(strings.TrimPrefix(got, "text "), " ")
				s, _ := strconv.Atoi(sender)
				if number != strconv.Itoa(next[s]) {
					t.Fatalf("got %q, want number %d", got, next[s])
				}
				next[s]++
			}
		}
		sending.Wait()
		close(done)
		moving.Wait()
	})
}

// TestGroupsEndTogether: joins, broadcasts, ends and Shutdown at the same time.
func TestGroupsEndTogether(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var g Group
		end := newEnds()
		f, conns := opened(t, engine, &Endpoint{OnClose: end.onClose})
		clients, all := members(t, f, conns, 50)
		var wait sync.WaitGroup
		for i, c := range all {
			wait.Go(func() {
				_ = g.Add(c)
				g.Broadcast(Prepare(Text, []byte("hello")), c)
				if i%3 == 0 {
					clients[i].Close()
				}
			})
		}
		for _, c := range clients {
			wait.Go(func() {
				for got := c.next(); !strings.HasPrefix(got, "close") && got != "end" && !strings.HasPrefix(got, "error"); got = c.next() {
				}
				_, _ = c.Write([]byte(closing(1001, "")))
			})
		}
		if err := f.server.Shutdown(); err != nil {
			t.Error(err)
		}
		wait.Wait()
		for range all {
			end.expect(t, "")
		}
		if g.Len() != 0 {
			t.Errorf("%d members remain", g.Len())
		}
	})
}

// TestSlowMembers: members that read nothing are treated as their policy says; the others
// get everything.
func TestSlowMembers(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy SlowPolicy
		last   string // that a slow member gets
		gets   string // what it gets
	}{
		{"close", SlowClose, "close 1013 too slow", ""},
		{"block", SlowBlock, "close 1013 too slow", ""},
		{"drop new", SlowDropNew, "end of test", "what went to it"},
		{"drop old", SlowDropOld, "end of test", "the last ones"},
		{"coalesce", SlowCoalesce, "end of test", "the last ones"},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, engine sluice.Engine) {
				const count = 1000
				var g Group
				f, conns := opened(t, engine, &Endpoint{Slow: test.policy, MaxPending: 100 << 10, WriteTimeout: patience})
				clients, all := members(t, f, conns, 2)
				_ = g.Add(all[0])
				_ = g.Add(all[1])
				body := strings.Repeat("x", 8<<10)
				text := func(i int) string { return fmt.Sprintf("%03d ", i) + body } // SlowCoalesce closes for longer ones
				last := count - 1
				var went []string // to the slow member
				for i := range count {
					p := PrepareKeyed("k"+strconv.Itoa(i%3), Text, []byte(text(i)))
					sent := g.Broadcast(p, nil)
					if sent == 0 || sent > 2 {
						t.Fatalf("a message went to %d members", sent)
					}
					if sent == 2 { // with "the last ones", what is being written may leave no room for newer ones
						last, went = i, append(went, long("text", text(i)))
					}
					if got := clients[1].next(); got != long("text", text(i)) {
						t.Fatalf("message %d is %.60q", i, got)
					}
				}
				if all[0].Pending() > 200<<10 {
					t.Errorf("%d bytes wait", all[0].Pending())
				}
				dropped, texts := all[0].Dropped(), []string(nil)
				isLossless := test.policy == SlowClose || test.policy == SlowBlock
				if !isLossless {
					if dropped == 0 || dropped >= count {
						t.Errorf("%d messages were dropped", dropped)
					}
					for all[0].TryWrite(Text, []byte("end of test")) == ErrFull { // SlowDropNew
						texts = append(texts, clients[0].next())
					}
				}
				texts = append(texts, nextUntil(t, clients[0], test.last, count)...)
				if isLossless {
					return
				}
				got := len(texts) - 1
				if got+int(dropped) != count {
					t.Errorf("%d messages came and %d were dropped", got, dropped)
				}
				isRight := slices.Contains(texts[max(0, len(texts)-4):], long("text", text(last)))
				if test.policy == SlowDropNew {
					isRight = slices.Equal(texts[:got], went) // also late: the system may take some more at any time
				}
				if !isRight {
					t.Errorf("it did not get %s", test.gets)
				}
			})
		})
	}
}

// TestSlowDuringACall: the policies that keep the newest messages do so for a member whose
// callback, or function of Accept, is busy while the peer reads nothing.
func TestSlowDuringACall(t *testing.T) {
	for _, policy := range []SlowPolicy{SlowCoalesce, SlowDropOld} {
		t.Run(policy.String(), func(t *testing.T) {
			for _, isAccepted := range []bool{false, true} {
				t.Run(fmt.Sprintf("accepted %t", isAccepted), func(t *testing.T) {
					onEngines(t, func(t *testing.T, engine sluice.Engine) {
						entered, goOn := make(chan *Conn, 1), make(chan bool)
						e := &Endpoint{Slow: policy, MaxPending: 100 << 10, WriteTimeout: patience}
						e.OnMessage = func(c *Conn, _ Message) error {
							entered <- c
							<-goOn
							return nil
						}
						f := start(t, engine, func(ctx *sluice.RequestCtx) {
							if !isAccepted {
								_ = e.Upgrade(ctx, nil)
								return
							}
							_ = e.Accept(ctx, func(c *Conn) error {
								for {
									m, err := c.Read(t.Context())
									if err != nil {
										return err
									}
									_ = e.OnMessage(c, m)
								}
							})
						})
						t.Cleanup(func() { close(goOn) })
						c := f.dial()
						c.raw(masked(ws.OpText, "busy"))
						conn := <-entered
						var g Group
						_ = g.Add(conn)
						body := strings.Repeat("x", 8<<10)
						const count = 2000 // more than all buffers
						for i := range count {
							if g.Broadcast(PrepareKeyed("k"+strconv.Itoa(i%3), Text, []byte(body+strconv.Itoa(i))), nil) == 0 {
								t.Fatalf("message %d went to nobody", i)
							}
						}
						if n := conn.Pending(); n > 200<<10 {
							t.Errorf("%d bytes wait", n)
						}
						if err := conn.TryWrite(Text, []byte("end")); err != nil {
							t.Error(err)
						}
						dropped := int(conn.Dropped())
						goOn <- true
						texts := nextUntil(t, c, "text end", count)
						if last := long("text", body+strconv.Itoa(count-1)); !slices.Contains(texts, last) {
							t.Error("it did not get the newest")
						}
						if got := len(texts) - 1; dropped == 0 || got+dropped != count {
							t.Errorf("%d messages came and %d were dropped", got, dropped)
						}
					})
				})
			}
		})
	}
}

// nextUntil returns what a client gets up to last, which comes after no more than most others.
func nextUntil(t *testing.T, c *client, last string, most int) (texts []string) {
	t.Helper()
	for {
		text := c.next()
		if texts = append(texts, text); text == last || text == "text "+last {
			return texts
		}
		if len(texts) > most || text == "end" || strings.HasPrefix(text, "error") {
			t.Fatalf("the last frame is %q", text)
		}
	}
}

// TestBroadcastAllocations: a broadcast allocates nothing, neither for idle members nor for
// those that Cast misses.
func TestBroadcastAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector empties pools")
	}
	if (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
		t.Skip("there is no event engine: each member is a goroutine that is woken")
	}
	var g Group
	f, conns := opened(t, sluice.EngineEpoll, &Endpoint{})
	_, all := members(t, f, conns, 300)
	for _, c := range all {
		_ = g.Add(c)
	}
	p := Prepare(Text, []byte("hello"))
	if n := testing.AllocsPerRun(100, func() { g.Broadcast(p, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
