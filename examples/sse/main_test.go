package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

const patience = 20 * time.Second

// running is a running service.
type running struct {
	*service
	url   string
	ended chan int // receives the number of remaining streams when one has ended
	stop  func()   // ends the server
}

func start(t *testing.T, engine sluice.Engine, heartbeat time.Duration) *running {
	t.Helper()
	return startWith(t, heartbeat, func(server *sluice.Server) { server.Engine = engine })
}

// startWith serves on a free port until the test ends.
func startWith(t *testing.T, heartbeat time.Duration, configure func(*sluice.Server)) *running {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 8)
	s := &service{broker: newBroker(), heartbeat: heartbeat, ended: func(left int) { ended <- left }}
	server := newServer(s)
	configure(server)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, server) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &running{s, "http://" + ln.Addr().String(), ended, stop}
}

// onEachEngine runs test for both engines and both kinds of streams.
func onEachEngine(t *testing.T, heartbeat time.Duration, test func(t *testing.T, s *running, path string)) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, path := range []string{"/events", "/events-by-writer"} {
			t.Run(engine.String()+path, func(t *testing.T) { test(t, start(t, engine, heartbeat), path) })
		}
	}
}

// client reads a stream line by line.
type client struct {
	*http.Response
	lines *bufio.Reader
}

// listen opens a stream. The head arrives before the first event.
func (s *running) listen(t *testing.T, path, lastID string) client {
	t.Helper()
	req, err := http.NewRequest("GET", s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	c := client{resp, bufio.NewReader(resp.Body)}
	c.want(t, "retry: 1000", "")
	return c
}

func (c client) want(t *testing.T, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\n" {
			t.Fatalf("line %q, %v, want %q", got, err, want)
		}
	}
}

// wantEnd waits until a stream has ended.
func (s *running) wantEnd(t *testing.T, left int) {
	t.Helper()
	select {
	case got := <-s.ended:
		if got != left {
			t.Errorf("%d streams are left, want %d", got, left)
		}
	case <-time.After(patience):
		t.Fatal("the stream does not end")
	}
}

func (s *running) publish(t *testing.T, name, data string) {
	t.Helper()
	resp, err := http.Post(s.url+"/publish?event="+name, "text/plain", strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("publish: %s", resp.Status)
	}
}

// Each event arrives before the next one is sent. If the client disconnects while
// nothing is being sent, the stream still ends.
func TestEventsArriveAndAGoneClientIsNoticed(t *testing.T) {
	onEachEngine(t, time.Hour, func(t *testing.T, s *running, path string) {
		c := s.listen(t, path, "")
		for n := 1; n <= 3; n++ {
			s.publish(t, "greeting", fmt.Sprintf("hello\n%d", n))
			c.want(t, fmt.Sprintf("id: %d", n), "event: greeting", "data: hello", fmt.Sprintf("data: %d", n), "")
		}
		c.Body.Close()
		s.wantEnd(t, 0)
	})
}

func TestResume(t *testing.T) {
	onEachEngine(t, time.Hour, func(t *testing.T, s *running, path string) {
		for _, data := range []string{"one", "two", "three"} {
			s.publish(t, "", data)
		}
		c := s.listen(t, path, "1")
		c.want(t, "id: 2", "data: two", "", "id: 3", "data: three", "")
		s.publish(t, "", "four")
		c.want(t, "id: 4", "data: four", "")
	})
}

func TestHeartbeat(t *testing.T) {
	onEachEngine(t, time.Millisecond, func(t *testing.T, s *running, path string) {
		s.listen(t, path, "").want(t, ":", "", ":", "")
	})
}

// Time-outs apply to requests and single writes, not to a stream. They are long
// enough for a request on a busy machine.
func TestStreamsOutliveTimeouts(t *testing.T) {
	const timeout, beat = time.Second, 200 * time.Millisecond
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, path := range []string{"/events", "/events-by-writer"} {
			t.Run(engine.String()+path, func(t *testing.T) {
				t.Parallel()
				s := startWith(t, beat, func(server *sluice.Server) {
					server.Engine = engine
					server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = timeout, timeout, timeout
				})
				c := s.listen(t, path, "")
				for range timeout/beat + 1 {
					c.want(t, ":", "")
				}
			})
		}
	}
}

// Shutdown ends streams: start checks that.
func TestShutdownEndsStreams(t *testing.T) {
	onEachEngine(t, time.Hour, func(t *testing.T, s *running, path string) {
		c := s.listen(t, path, "")
		s.stop()
		s.wantEnd(t, 0)
		if got, err := c.lines.ReadString('\n'); got != "" {
			t.Errorf("at the end: %q, %v", got, err)
		}
	})
}

func TestHeadBeginsNoStream(t *testing.T) {
	s := start(t, sluice.EngineAuto, time.Hour)
	for _, path := range []string{"/events", "/events-by-writer"} {
		resp, err := http.Head(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %s, %v", path, resp.Status, resp.Header)
		}
	}
	if len(s.ended) > 0 {
		t.Error("a stream was begun")
	}
}

// A subscriber that is too slow is dropped, and gets the rest after it has
// reconnected.
func TestSlowSubscriber(t *testing.T) {
	b := newBroker()
	slow := b.subscribe(nil)
	for range lag + 1 {
		b.publish("", "x")
	}
	if len(b.subscribers) > 0 {
		t.Error("the subscriber is still there")
	}
	last := uint64(0)
	for e := range slow.events { // the channel is closed at the end
		last = e.id
	}
	if again := b.subscribe(&last); last != lag || len(again.missed) != 1 || again.missed[0].id != lag+1 {
		t.Errorf("last %d, missed %v", last, again.missed)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	b := newBroker()
	for range kept + 10 {
		b.publish("", "x")
	}
	if after := uint64(0); len(b.subscribe(&after).missed) != kept || len(b.history) != kept {
		t.Errorf("%d events are kept", len(b.history))
	}
}

func TestEventText(t *testing.T) {
	for _, test := range []struct {
		event event
		want  string
	}{
		{event{1, "", "a"}, "id: 1\ndata: a\n\n"},
		{event{2, "n", ""}, "id: 2\nevent: n\ndata: \n\n"},
		{event{3, "a\rid: 9", "b\r\nc\rdata: d\n"}, "id: 3\nevent: a id: 9\ndata: b\ndata: c\ndata: data: d\ndata: \n\n"},
	} {
		var got strings.Builder
		if err := test.event.write(&got); err != nil || got.String() != test.want {
			t.Errorf("%+v: %q, %v, want %q", test.event, got.String(), err, test.want)
		}
	}
}
