package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

const (
	goodAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
	failure    = "x\r\n\r\n"
	badAnswer  = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad"
)

// A heldUpstream answers when it is told to.
type heldUpstream struct {
	rawUpstream
	url     string
	answers chan string // for each request; "" closes the connection
}

func newHeldUpstream(t *testing.T) *heldUpstream {
	u := &heldUpstream{answers: make(chan string, 10)}
	u.answer = func(string) string { return <-u.answers }
	u.url = u.start(t)
	t.Cleanup(func() { close(u.answers) })
	return u
}

func (u *heldUpstream) await(t *testing.T, requests int) {
	t.Helper()
	if !nettest.Poll(longEnough, func() bool { return u.requests() >= requests }) {
		t.Fatalf("%d of %d requests", u.requests(), requests)
	}
}

// hedging returns a Proxy that may hedge n requests, and sends each request to the first upstream.
func hedging(t *testing.T, n int64, to ...*heldUpstream) *Proxy {
	o := Options{HedgeAfter: time.Millisecond, Via: "p"}
	for _, u := range to {
		o.To = append(o.To, u.url)
	}
	p := newProxy(t, o)
	p.hedges.saved.Store(n * hedgeEvery)
	return p
}

// TestHedge: which response the client gets, and what both upstreams have got.
func TestHedge(t *testing.T) {
	for _, c := range []struct {
		name, first, second, status string
	}{
		{name: "the hedge is faster", second: goodAnswer, status: "200"},
		{name: "the first one is faster", first: goodAnswer, status: "200"},
		{name: "the first one fails", first: failure, second: goodAnswer, status: "200"},
		{name: "both fail", first: failure, second: failure, status: "502"},
		{name: "the hedge fails", second: failure, first: goodAnswer, status: "200"},
		{name: "the hedge is bad", second: badAnswer, first: goodAnswer, status: "200"},
		{name: "both are bad", second: badAnswer, first: badAnswer, status: "500"},
		{name: "the first one is bad", first: badAnswer, second: goodAnswer, status: "200"},
		{name: "the first one fails, the hedge is bad", first: failure, second: badAnswer, status: "500"},
	} {
		for _, request := range []string{
			"GET /a%2Fb?q HTTP/1.1\r\nHost: a\r\nX-Own: 1\r\nConnection: close\r\n\r\n",
			"QUERY / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
		} {
			t.Run(c.name+"/"+request[:4], func(t *testing.T) {
				one, two := newHeldUpstream(t), newHeldUpstream(t)
				p := hedging(t, 1, one, two)
				conn := dialFront(t, front(t, p, sluice.EngineAuto))
				send(t, conn, request)
				one.await(t, 1)
				two.await(t, 1)
				if a, b := one.taken(), two.taken(); a != b || !strings.Contains(a, "Via: 1.1 p") {
					t.Errorf("the first upstream got\n%s\nthe second one\n%s", a, b)
				}
				for u, text := range map[*heldUpstream]string{one: c.first, two: c.second} {
					if text != "" {
						u.answers <- text
					}
					if text == failure {
						u.answers <- text // the client tries again, on another connection
					}
				}
				resp := answerTo(t, bufio.NewReader(conn), int(c.status[0]-'0')*100+int(c.status[2]-'0'))
				if body := bodyOf(t, resp); c.status == "200" && body != "good" {
					t.Errorf("%q", body)
				}
				if a, b := one.requests(), two.requests(); a > 1 && c.first != failure || b > 1 && c.second != failure || a > 2 || b > 2 {
					t.Errorf("%d and %d requests", a, b)
				}
				for u, text := range map[*heldUpstream]string{one: c.first, two: c.second} {
					if text == "" { // it was cancelled: its answer is not read
						u.answers <- goodAnswer
						u.awaitClosed(t, 1)
					}
				}
				awaitIdle(t, p)
				if s := p.Status(); s[0].Sent != 1 || s[1].Sent != 1 || s[0].Hedged != 0 || s[1].Hedged != 1 || s[1].Pending != 0 || !s[0].IsUp || !s[1].IsUp {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// TestNoHedge: what is not safe, or has no budget, is never sent twice. The one that comes second
// could be answered 412, 409 or 404 because of the first one, and sooner.
func TestNoHedge(t *testing.T) {
	for _, c := range []struct {
		name, request string
		hedges        int64
		change        func(p *Proxy)
	}{
		{name: "POST", hedges: 1, request: post("Content-Length: 2\r\n", "hi")},
		{name: "PATCH", hedges: 1, request: strings.Replace(post("Content-Length: 2\r\n", "hi"), "POST", "PATCH", 1)},
		{name: "PUT", hedges: 1, request: strings.Replace(post("If-Match: \"1\"\r\nContent-Length: 2\r\n", "hi"), "POST", "PUT", 1)},
		{name: "DELETE", hedges: 1, request: strings.Replace(get(""), "GET", "DELETE", 1)},
		{name: "Idempotency-Key", hedges: 1, request: post("Idempotency-Key: 1\r\nContent-Length: 2\r\n", "hi")},
		{name: "a streamed body", hedges: 1, request: strings.Replace(post(chunked, "2\r\nhi\r\n0\r\n\r\n"), "POST", "QUERY", 1)},
		{name: "a long body", hedges: 1, request: strings.Replace(post("Content-Length: 20000\r\n", strings.Repeat("x", 20000)), "POST", "QUERY", 1)},
		{name: "an upgrade", hedges: 1, request: get(upgrading)},
		{name: "no budget", hedges: 0, request: get("")},
		{name: "the other one is down", hedges: 1, request: get(""), change: func(p *Proxy) { p.group.Members()[1].SetDown(true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two := newHeldUpstream(t), newHeldUpstream(t)
			p := hedging(t, c.hedges, one, two)
			if c.change != nil {
				c.change(p)
			}
			conn := dialFront(t, front(t, p, sluice.EngineAuto))
			send(t, conn, c.request)
			one.await(t, 1)
			time.Sleep(20 * p.options.HedgeAfter)
			one.answers <- goodAnswer
			bodyOf(t, answerTo(t, bufio.NewReader(conn), 200))
			if n := two.requests(); n != 0 || p.Status()[1].Sent != 0 {
				t.Errorf("the second upstream has got %d requests", n)
			}
		})
	}
	if _, err := New(Options{To: []string{"http://a", "http://b"}, Balance: Sticky, HedgeAfter: time.Second}); err == nil {
		t.Error("Sticky may hedge")
	}
}

// TestHedgeBudget: slow upstreams get a tenth more requests, and not twice as many.
func TestHedgeBudget(t *testing.T) {
	var count atomic.Int64
	slow := func() *rawUpstream {
		return &rawUpstream{answer: func(string) string {
			count.Add(1)
			time.Sleep(3 * time.Millisecond)
			return goodAnswer
		}}
	}
	p := newProxy(t, Options{To: []string{slow().start(t), slow().start(t)}, HedgeAfter: time.Nanosecond})
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	r := bufio.NewReader(conn)
	for range 100 {
		send(t, conn, get(""))
		bodyOf(t, answerTo(t, r, 200))
	}
	s := p.Status()
	if hedged := s[0].Hedged + s[1].Hedged; hedged > 10 || hedged == 0 || s[0].Sent+s[1].Sent != 100+hedged {
		t.Errorf("%+v", s)
	}
	var b hedgeBudget
	for range 1000 {
		b.earn()
	}
	spent := 0
	for b.spend() {
		spent++
	}
	if spent != hedgesSaved {
		t.Errorf("%d hedges at once", spent)
	}
}

// TestHedgeClientGone: a client that disconnects ends both requests.
func TestHedgeClientGone(t *testing.T) {
	one, two := newHeldUpstream(t), newHeldUpstream(t)
	p := hedging(t, 1, one, two)
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	send(t, conn, get(""))
	one.await(t, 1)
	two.await(t, 1)
	conn.Close()
	awaitIdle(t, p)
	one.answers <- goodAnswer // their ends of the connections show now
	two.answers <- goodAnswer
	one.awaitClosed(t, 1)
	two.awaitClosed(t, 1)
	if s := p.Status(); s[0].Failed != 0 || s[1].Failed != 0 || s[1].Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// TestHedgeRaces: whichever attempt wins, each client gets one whole response, of its own request,
// and nothing remains. The bodies are longer than what is read with the head.
func TestHedgeRaces(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) { testHedgeRaces(t, scheme) })
	}
}

func testHedgeRaces(t *testing.T, scheme string) {
	echo := func() string {
		return strings.Replace(upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 10_000))
		}), "http", scheme, 1)
	}
	p := newProxy(t, Options{To: []string{echo(), echo()}, HedgeAfter: 50 * time.Microsecond})
	addr := front(t, p, sluice.EngineAuto)
	done := make(chan error)
	for n := range 4 {
		go func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				done <- err
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(longEnough))
			r := bufio.NewReader(conn)
			for i := range 100 {
				path := fmt.Sprintf("/%d.%d", n, i)
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
				p.hedges.saved.Store(hedgeEvery)
				var resp sluice.Response
				if err := resp.Read(r); err != nil || string(resp.Body()) != strings.Repeat(path, 10_000) {
					done <- fmt.Errorf("%s: %.100s, %w", path, &resp, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := wait(t, done, "a client waits for ever"); err != nil {
			t.Error(err)
		}
	}
	awaitIdle(t, p)
	s := p.Status()
	if s[1].Pending != 0 || s[0].Hedged+s[1].Hedged == 0 || s[0].Failed+s[1].Failed > 0 {
		t.Errorf("%+v", s)
	}
}

// TestHedgedEvents: a stream of events continues after its head, whether the hedge has it or not.
func TestHedgedEvents(t *testing.T) {
	for _, isSlow := range []bool{false, true} {
		for _, engine := range engines {
			t.Run(fmt.Sprint(engine, isSlow), func(t *testing.T) {
				goOn, begin := make(chan bool), make(chan bool)
				events := func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, "data: 1\n\n")
					_ = http.NewResponseController(w).Flush()
					<-goOn
					_, _ = io.WriteString(w, "data: 2\n\n")
				}
				slow := func(w http.ResponseWriter, r *http.Request) {
					if isSlow {
						<-begin
						return
					}
					events(w, r)
				}
				o := Options{To: []string{upstreamOf(t, slow), upstreamOf(t, events)}, HedgeAfter: time.Hour}
				if isSlow {
					o.HedgeAfter = time.Millisecond
				}
				p := newProxy(t, o)
				p.hedges.saved.Store(hedgeEvery)
				conn := dialFront(t, front(t, p, engine))
				send(t, conn, get(""))
				resp := answerTo(t, bufio.NewReader(conn), 200)
				first := make([]byte, len("data: 1\n\n"))
				if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "data: 1\n\n" {
					t.Fatalf("%q, %v", first, err)
				}
				close(begin)
				close(goOn)
				if rest := bodyOf(t, resp); rest != "data: 2\n\n" {
					t.Errorf("%q", rest)
				}
				awaitIdle(t, p)
				if s := p.Status()[1]; (s.Hedged == 1) != isSlow || s.Pending != 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}
