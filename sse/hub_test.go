package sse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func TestStream(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		closed := make(chan error, 10)
		f := start(t, e, Options{Retry: 1500 * time.Millisecond, OnClose: func(topics []string, err error) {
			if !slices.Equal(topics, []string{"news"}) {
				t.Errorf("topics %q", topics)
			}
			closed <- err
		}})
		c := f.open("news", "")
		for _, want := range []string{"HTTP/1.1 200 OK\r\n", "Content-Type: text/event-stream\r\n", "Connection: close\r\n", "X-Accel-Buffering: no\r\n"} {
			if !strings.Contains(c.head, want) {
				t.Errorf("the head has no %q:\n%s", want, c.head)
			}
		}
		f.joined("news", 1)
		f.publish("other", "nothing")
		f.publish("news", "one")
		if err := f.hub.Publish("news", Event{Name: "tick", Data: []byte("two\nlines")}); err != nil {
			t.Fatal(err)
		}
		c.want("one")
		got, err := c.Next()
		if err != nil || got.Name != "tick" || string(got.Data) != "two\nlines" || got.ID == "" || c.Retry() != 1500*time.Millisecond {
			t.Errorf("event %+v, %v, retry %v", got, err, c.Retry())
		}
		// A client that sends is not disturbed; one that goes is noticed at once.
		if _, err := io.WriteString(c.conn, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		f.publish("news", "three")
		c.want("three")
		c.conn.Close()
		f.joined("news", 0)
		if err := <-closed; err == nil {
			t.Error("OnClose gets no error")
		}
		if s := f.hub.Stats(); s.Streams != 0 || s.Events != 4 || s.Topics != 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestForms: what is not HTTP/1.1 with GET gets the same events.
func TestForms(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{})
		if c := f.ask("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.Contains(c.head, "text/event-stream") {
			t.Error(c.head)
		} else if _, err := io.WriteString(c.conn, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Error(err) // the connection stays open after HEAD
		} else if line, err := c.in.ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
			t.Errorf("after HEAD: %q, %v", line, err)
		}
		old := f.ask("GET /a HTTP/1.0\r\n\r\n")
		if strings.Contains(old.head, "Transfer-Encoding") {
			t.Error(old.head)
		}
		post := f.ask("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi")
		f.joined("a", 3)
		f.publish("a", "x")
		f.publish("a", "y")
		old.want("x", "y")
		post.want("x", "y")
		for _, request := range []string{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a,a HTTP/1.1\r\nHost: h\r\n\r\n"} {
			want := "HTTP/1.1 503 "
			if strings.HasPrefix(request, "GET / ") {
				want = "HTTP/1.1 200 " // the topic ""
			}
			if c := f.ask(request); !strings.HasPrefix(c.head, want) {
				t.Errorf("%q: %s", request, c.head)
			}
		}
		go func() { _ = f.server.Shutdown() }()
		old.wantEnd()
		post.wantEnd()
	})
}

// TestShutdownBeforeOpen: a stream whose handler returns after the engine was shut down begins, and
// ends in order, after the event that tells when to connect again.
func TestShutdownBeforeOpen(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		var isShutDown <-chan struct{}
		arrived := make(chan struct{}, 2)
		f := start(t, e, Options{}, func(s *sluice.Server) {
			serve := s.Handler
			s.Handler = func(ctx *sluice.RequestCtx) {
				serve(ctx)
				arrived <- struct{}{}
				<-isShutDown
			}
		})
		isShutDown = nettest.AfterShutdown(f.server.Serve)
		w, first, second := f.wire(64<<10), make(chan *client, 1), make(chan *wireStream, 1)
		go func() { first <- f.open("a", "") }()
		go func() { second <- w.open("a", "") }()
		<-arrived
		<-arrived
		done := make(chan error, 1)
		go func() { done <- f.server.Shutdown() }()
		old, over2 := <-first, <-second
		old.wantEnd()
		over2.wantEnd()
		_ = w.Close()
		for _, r := range []*Reader{old.Reader, over2.Reader} {
			if r.Retry() == 0 {
				t.Error("the stream has ended without a last event")
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestSlowSnapshot: a client gets what is published while Snapshot runs, or another Snapshot, or
// no stream if it would miss events each time.
func TestSlowSnapshot(t *testing.T) {
	var f *fixture
	snapshots := 0
	f = start(t, sluice.EngineAuto, Options{History: 5, Snapshot: func(_ *sluice.RequestCtx, topics []string) ([]Event, error) {
		snapshots++
		state := fmt.Sprint("state ", snapshots)
		for i := range 10 {
			switch {
			case topics[0] == "always", topics[0] == "once" && snapshots == 1:
				f.publish(topics[0], fmt.Sprint(i))
			case topics[0] == "quiet" || i < 3:
				f.publish("other", fmt.Sprint(i))
			}
		}
		return []Event{{Data: []byte(state)}}, nil
	}})
	f.open("once", "").want("state 2")
	snapshots = 0
	f.open("few,other", "").want("state 1", "0", "1", "2")
	snapshots = 0
	if c := f.open("always", ""); !strings.HasPrefix(c.head, "HTTP/1.1 503 ") || snapshots != maxSnapshots {
		t.Errorf("after %d snapshots: %s", snapshots, c.head)
	}
	snapshots = 0 // whether there were events of the topic is not known
	f.open("quiet", "").want(fmt.Sprint("state ", maxSnapshots))
}

func TestReconnect(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{History: 5, Snapshot: func(ctx *sluice.RequestCtx, topics []string) ([]Event, error) {
			if topics[0] == "broken" {
				return nil, errors.New("no snapshot")
			}
			return []Event{{Name: "state", Data: []byte("of " + topics[0])}}, nil
		}})
		c := f.open("a", "")
		c.want("of a")
		f.joined("a", 1)
		f.publish("a", "1")
		c.want("1")
		id := c.LastID()
		c.conn.Close()
		f.publish("a", "2")
		f.publish("b", "-")
		f.publish("a", "3")
		c = f.open("a", id)
		c.want("2", "3")
		c = f.open("a,b", id)
		c.want("2", "-", "3")
		f.publish("a", "4")
		c.want("4")
		// The event 2 is not kept any more; the client that has got 4 misses nothing.
		last := c.LastID()
		for i := range 4 {
			f.publish("a", fmt.Sprint("more ", i))
		}
		f.open("a", last).want("more 0", "more 1", "more 2", "more 3")
		f.open("a", id).want("of a")
		f.open("a", "of another server").want("of a")
		f.open("a", "1z.17").want("of a")
		// A client that has only seen the beginning continues there.
		c = f.open("a", "")
		c.want("of a")
		f.publish("a", "5")
		c.want("5")
		if c := f.open("broken", ""); !strings.HasPrefix(c.head, "HTTP/1.1 503 ") {
			t.Error(c.head)
		}
	})
}

// TestLastEventID is found in any spelling, even if names are kept.
func TestLastEventID(t *testing.T) {
	for _, name := range []string{"Last-Event-ID", "last-event-id", "Last-Event-Id"} {
		var h sluice.RequestHeader
		h.DisableNormalizing()
		h.Set(name, "7")
		if got := lastEventID(&h); got != "7" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := lastEventID(new(sluice.RequestHeader)); got != "" {
		t.Errorf("without the field: %q", got)
	}
}

// TestBeginning: the ID that comes with the head is that of the place where the stream
// begins, also while there is no event.
func TestBeginning(t *testing.T) {
	f := start(t, sluice.EngineAuto, Options{})
	c := f.open("a", "")
	f.joined("a", 1)
	line, err := c.in.ReadString(' ')
	if err != nil || !strings.HasSuffix(line, "id: ") {
		t.Fatalf("%q, %v", line, err)
	}
	id, _ := c.in.ReadString('\n')
	f.publish("a", "1")
	f.open("a", strings.TrimSpace(id)).want("1")
}

// TestSlow: a client that does not read holds nothing but its place. When its next event is
// gone, the stream ends.
func TestSlow(t *testing.T) {
	closed := make(chan error, 1)
	f := start(t, sluice.EngineAuto, Options{History: 100, OnClose: func(_ []string, err error) { closed <- err }})
	slow, fast := f.open("a", ""), f.open("b", "")
	f.joined("a", 1)
	f.joined("b", 1)
	data := strings.Repeat("x", 64<<10)
	for i := range 1000 {
		f.publish("a", data)
		if s := f.hub.Stats(); s.Events > 100 || s.HistoryBytes > 16<<20 {
			t.Fatalf("stats %+v", s)
		}
		if i%100 == 0 {
			f.publish("b", "go on")
			fast.want("go on")
		}
	}
	for {
		if _, err := slow.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-closed; err != ErrSlow {
		t.Errorf("OnClose got %v", err)
	}
}

func TestHeartbeat(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{Heartbeat: 10 * time.Millisecond})
		c := f.open("a", "")
		for range 3 {
			for line := ""; line != ":\n"; {
				var err error
				if line, err = c.in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	onEnginesTLS(t, func(t *testing.T, s *sluice.Server) {
		h, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Handler = func(ctx *sluice.RequestCtx) { _ = h.Serve(ctx, "a") }
		cert, key, err := sluice.GenerateTestCertificate("localhost")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.ServeTLSEmbed(ln, cert, key) }()
		defer func() { _ = s.Shutdown() }()
		conn, err := tls.Dial("tcp4", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		req, _ := http.NewRequest("GET", "https://localhost/", nil)
		resp, err := (&http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the stream begins", func() bool { return h.Len("a") == 1 })
		r := NewReader(resp.Body)
		for i := range 100 {
			if err := h.Publish("a", Event{Data: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			if e, err := r.Next(); err != nil || string(e.Data) != fmt.Sprint(i) {
				t.Fatalf("%q, %v, want %d", e.Data, err, i)
			}
			if i == 50 {
				coolsDown(t, s)
			}
		}
	})
}

func TestPublishErrors(t *testing.T) {
	h, err := New(Options{HistoryBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		topic string
		event Event
		want  error
	}{
		"large":         {"a", Event{Data: make([]byte, MaxEvent+1)}, ErrTooLarge},
		"for a history": {"a", Event{Data: make([]byte, 1<<10+1)}, ErrTooLarge},
		"LF":            {"a", Event{Name: "x\ndata: y"}, ErrName},
		"CR":            {"a", Event{Name: "x\r"}, ErrName},
		"topic":         {strings.Repeat("x", MaxTopic+1), Event{}, ErrTopics},
	} {
		if err := h.Publish(test.topic, test.event); err != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Name: strings.Repeat("x", 201)}); err == nil {
		t.Error("a long name is accepted")
	}
	for _, o := range []Options{{History: -1}, {HistoryBytes: -1}} {
		if h, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
			_ = h.Publish("a", Event{Data: []byte("x")})
		}
	}
	if err := h.Register(&sluice.Server{}); err == nil {
		t.Error("a Hub without a name is registered")
	}
}

// TestConcurrent: many goroutines publish to topics, clients of one and of several topics
// come and go, and each gets all events of its topics in the order of the log.
func TestConcurrent(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		const publishers, each = 4, 300
		f := start(t, e, Options{History: publishers*each + 2})
		names := []string{"a", "b", "c"}
		sets := []string{"a", "b", "a,b", "c,a", "a,b,c"}
		clients := make([]*client, 40)
		for i := range clients {
			clients[i] = f.open(sets[i%len(sets)], "")
		}
		eventually(t, "all are there", func() bool { return f.hub.Stats().Streams == len(clients) })
		var publishing, reading sync.WaitGroup
		for p := range publishers {
			publishing.Go(func() {
				for i := range each {
					topic := names[rand.N(len(names))]
					f.publish(topic, fmt.Sprintf("%s %d %d", topic, p, i))
				}
			})
		}
		for i, c := range clients {
			reading.Go(func() { readAll(f, c, sets[i%len(sets)], i%7 == 0) })
		}
		publishing.Wait()
		f.publish("a", "end")
		f.publish("b", "end")
		reading.Wait()
	})
}

// readAll reads up to the event "end" of a stream, and compares it with the log. reconnects:
// it connects again after some events.
func readAll(f *fixture, c *client, topics string, reconnects bool) {
	var got []string
	for {
		e, err := c.Next()
		if err != nil {
			f.t.Error(topics, err, len(got))
			return
		}
		if string(e.Data) == "end" {
			break
		}
		got = append(got, string(e.Data))
		if reconnects && len(got)%50 == 20 {
			id := c.LastID()
			c.conn.Close()
			c = f.open(topics, id)
		}
	}
	var want []string
	h := f.hub
	h.mu.Lock()
	for n := h.log.first; n <= h.log.last; n++ {
		e := h.log.at(n)
		_, text, _ := strings.Cut(string(e.raw()), "data: ")
		text = strings.TrimSpace(text)
		if text == "end" {
			break
		}
		if slices.Contains(strings.Split(topics, ","), e.topic.name) {
			want = append(want, text)
		}
	}
	h.mu.Unlock()
	if !slices.Equal(got, want) {
		f.t.Errorf("%s: %d events, want %d", topics, len(got), len(want))
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				f.t.Errorf("event %d is %q, want %q", i, got[i], want[i])
				break
			}
		}
	}
}

// TestLongestTimes: the longest times are those without an end.
func TestLongestTimes(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f := start(t, e, Options{Heartbeat: math.MaxInt64, WriteTimeout: math.MaxInt64, RestartSpread: math.MaxInt64, Retry: math.MaxInt64})
		for i := range 20 {
			c := f.open("a", "")
			f.joined("a", i+1)
			f.publish("a", "1")
			c.want("1")
			f.publish("a", "2")
			c.want("2")
		}
	})
}
