package prefork

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/sse"
)

var historyRestarts = flag.Int("history.restarts", 2, "how often TestRestartsOfEventSources replaces the workers")

// An eventSource is a client of withStreams that comes back with the ID of its last event, as
// EventSource does.
type eventSource struct {
	client http.Client
	url    string
	lastID string
	got    map[int]bool
	breaks int
	reader *sse.Reader // nil: there is no connection
	end    func()
}

func (f *fleet) source(topic string, isTLS bool) *eventSource {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &eventSource{client: http.Client{Transport: transport}, url: f.url(isTLS) + "/events/" + topic, got: map[int]bool{}}
}

func (f *fleet) url(isTLS bool) string {
	if isTLS {
		return "https://" + f.addr(0)
	}
	return "http://" + f.addr(0)
}

// open makes a connection. When it returns, the client is at its place.
func (s *eventSource) open() error {
	req, err := http.NewRequest("GET", s.url, nil)
	if err != nil {
		return err
	}
	if s.lastID != "" {
		req.Header.Set("Last-Event-ID", s.lastID)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	s.reader, s.end = sse.NewReader(resp.Body), func() { resp.Body.Close(); s.reader = nil }
	if resp.StatusCode != http.StatusOK {
		s.end()
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// next returns the next event of the connection.
func (s *eventSource) next() (sse.Event, error) {
	e, err := s.reader.Next()
	if id := s.reader.LastID(); id != "" {
		s.lastID = id
	}
	return e, err
}

// read reads events until isEnough says so, or the connection breaks. Each comes once.
func (s *eventSource) read(isEnough func() bool) error {
	if s.reader == nil && s.open() != nil {
		return nil // it comes again
	}
	defer s.end()
	for !isEnough() {
		e, err := s.next()
		if err != nil {
			s.breaks++
			return nil
		}
		n, err := strconv.Atoi(string(e.Data))
		if err != nil || s.got[n] {
			return fmt.Errorf("event %q %q after %d, or twice (ID %s): %v", e.Name, e.Data, len(s.got), e.ID, err)
		}
		s.got[n] = true
	}
	return nil
}

// follow reads count events, and comes back when its connection breaks.
func (s *eventSource) follow(count int) error {
	for end := time.Now().Add(patience); len(s.got) < count; {
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d events after %d connections (ID %s)", len(s.got), count, s.breaks, s.lastID)
		}
		if err := s.read(func() bool { return len(s.got) >= count }); err != nil {
			return err
		}
	}
	return nil
}

// An eventPublisher publishes numbers.
type eventPublisher struct {
	client http.Client
	url    string
	next   int
}

func (f *fleet) publisher(isTLS bool) *eventPublisher {
	return &eventPublisher{client: f.source("", isTLS).client, url: f.url(isTLS)}
}

func (p *eventPublisher) publish(t *testing.T, topic string, count int) {
	t.Helper()
	for range count {
		for try := 0; ; try++ { // a connection may be closed in a restart, before the request is handled
			resp, err := p.client.Get(fmt.Sprintf("%s/publish?topic=%s&data=%d", p.url, topic, p.next))
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
			t.Fatal(err)
		}
		p.next++
	}
}

// receive opens a connection, gets count events, and goes.
func (s *eventSource) receive(t *testing.T, p *eventPublisher, count int) {
	t.Helper()
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.end()
	p.publish(t, "idle", count)
	for range count {
		if _, err := s.next(); err != nil {
			t.Fatal(err)
		}
	}
}

// onTransports runs test over TCP and over TLS.
func onTransports(t *testing.T, test func(t *testing.T, isTLS bool)) {
	for _, isTLS := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[isTLS], func(t *testing.T) { test(t, isTLS) })
	}
}

// A client that was away over a restart of all workers gets what it has missed, wherever it
// comes back, from one process or several.
func TestHistoryAfterRestart(t *testing.T) {
	for _, workers := range []int{1, 3} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) {
			t.Parallel()
			onTransports(t, func(t *testing.T, isTLS bool) {
				f := start(t, setup{Workers: workers, Streams: true, TLS: isTLS}, true)
				s, p := f.source("idle", isTLS), f.publisher(isTLS)
				s.receive(t, p, 20)
				p.publish(t, "idle", 50)
				f.replace(workers)
				for range 2 * workers { // in each worker
					again := f.source("idle", isTLS)
					again.lastID = s.lastID
					if err := again.follow(50); err != nil {
						t.Fatal(err)
					}
				}
				if gaps := f.printed("gap of events"); len(gaps) > 0 {
					t.Errorf("%q", gaps)
				}
			})
		})
	}
}

// The history of a worker that was killed is in the others, and its successor has it.
func TestHistoryAfterKill(t *testing.T) {
	f := start(t, setup{Workers: 2, Threshold: 10, Streams: true}, true)
	s, p := f.source("idle", false), f.publisher(false)
	s.receive(t, p, 20)
	p.publish(t, "idle", 50)
	time.Sleep(100 * time.Millisecond) // what a worker publishes in its last milliseconds is lost
	for pid := range f.living() {
		ready := f.count(": ready after ")
		n, _ := strconv.Atoi(pid)
		nettest.Signal(t, n, syscall.SIGKILL)
		until(t, "there is a successor", func() bool { return f.count(": ready after ") > ready })
	}
	for range 6 {
		again := f.source("idle", false)
		again.lastID = s.lastID
		if err := again.follow(50); err != nil {
			t.Fatal(err)
		}
	}
}

// readTo reads up to an event, and comes back when its connection breaks. It may be told of a gap.
func (s *eventSource) readTo(last int) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if s.reader == nil && s.open() != nil {
			continue
		}
		e, err := s.next()
		if err != nil {
			s.end()
			continue
		}
		if e.Name == sse.GapEvent {
			continue
		}
		n, err := strconv.Atoi(string(e.Data))
		if err != nil || s.got[n] {
			return fmt.Errorf("event %q twice, or wrong: %v", e.Data, err)
		}
		if s.got[n] = true; n == last {
			s.end()
			return nil
		}
	}
	return fmt.Errorf("event %d does not come", last)
}

// A worker is killed as soon as it has answered that an event is published, again and again. Each
// client of the others gets the event once, or they were told of a gap.
func TestPublishThenKill(t *testing.T) {
	const kills, clients = 8, 6
	f := start(t, setup{Workers: 3, Threshold: 2 * kills, Streams: true}, true)
	all := make([]*eventSource, clients)
	for i := range all {
		all[i] = f.source("idle", false)
	}
	lost := 0
	for n := range kills {
		for _, s := range all {
			if err := s.open(); err != nil {
				t.Fatal(err)
			}
		}
		publishing := f.dial()
		pid, _ := strconv.Atoi(strings.Fields(publishing.get("/"))[0])
		ready, gaps := f.count(": ready after "), f.count("gap of events")
		publishing.get(fmt.Sprintf("/publish?topic=idle&data=%d", 2*n))
		nettest.Signal(t, pid, syscall.SIGKILL)
		until(t, "there is a successor", func() bool { return f.count(": ready after ") > ready })
		until(t, "the others and the successor are told", func() bool { return f.count("gap of events") >= gaps+3 })
		last := 2*n + 1
		if _, err := f.get(fmt.Sprintf("/publish?topic=idle&data=%d", last)); err != nil {
			t.Fatal(err)
		}
		for i, s := range all {
			if err := s.readTo(last); err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
			if !s.got[2*n] {
				lost++
			}
		}
	}
	t.Logf("%d of %d were lost", lost, kills*clients)
}

// A client whose next events have left the history is told, by a GapEvent and OnGap.
func TestHistoryTooShort(t *testing.T) {
	f := start(t, setup{Workers: 1, Streams: true}, true)
	s, p := f.source("idle", false), f.publisher(false)
	s.receive(t, p, 1)
	if _, err := f.get("/publish?topic=busy&data=x&count=6000"); err != nil {
		t.Fatal(err)
	}
	p.publish(t, "idle", 1)
	f.replace(1)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "1"} {
		e, err := s.next()
		if err != nil || i == 0 && e.Name != sse.GapEvent || i > 0 && string(e.Data) != want {
			t.Errorf("event %d: %q %q, %v", i, e.Name, e.Data, err)
		}
	}
	until(t, "OnGap is called", func() bool { return f.count("gap of events") > 0 })
	s.end()
	if err := s.open(); err != nil { // it has been told
		t.Fatal(err)
	}
	p.publish(t, "idle", 1)
	if e, err := s.next(); err != nil || string(e.Data) != "2" {
		t.Errorf("event %q %q, %v", e.Name, e.Data, err)
	}
}

// Clients that come back whenever their connection ends get each event once, however many
// restarts there are: over TLS, where streams do not move, and over TCP, where a third of them
// goes by itself all the time.
func TestRestartsOfEventSources(t *testing.T) {
	const workers, clients = 2, 24
	onTransports(t, func(t *testing.T, isTLS bool) {
		t.Parallel()
		f := start(t, setup{Workers: workers, Streams: true, TLS: isTLS, Linger: time.Second, Drain: 2 * time.Second}, true)
		var l load
		p := f.publisher(isTLS)
		total := make(chan int, 1)
		sources := make([]*eventSource, clients)
		for i := range sources {
			s := f.source("busy", isTLS)
			sources[i] = s
			if err := s.open(); err != nil { // before the first event
				t.Fatal(err)
			}
		}
		for i, s := range sources {
			l.done.Go(func() {
				for n := 1; !l.stop.Load(); n++ {
					goal := len(s.got) + 50
					if err := s.read(func() bool { return l.stop.Load() || i%3 == 0 && len(s.got) >= goal }); err != nil {
						l.fail(fmt.Errorf("client %d: %w", i, err))
						return
					}
				}
			})
		}
		l.done.Go(func() {
			for !l.stop.Load() {
				p.publish(t, "busy", 1)
				l.answered.Add(1)
				time.Sleep(2 * time.Millisecond)
			}
			p.publish(t, "busy", clients) // so that all readers see the end
			total <- p.next
		})
		for range *historyRestarts {
			goal := l.answered.Load() + 50
			until(t, "events are published", func() bool { return l.answered.Load() >= goal || t.Failed() })
			f.replace(workers)
		}
		l.end(t)
		count, breaks := <-total, 0
		for i, s := range sources {
			if err := s.follow(count); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			breaks += s.breaks
		}
		if gaps := f.printed("gap of events"); len(gaps) > 0 {
			t.Errorf("%q", gaps)
		}
		t.Logf("%d restarts, %d clients of %d events each, %d connections broke", *historyRestarts, clients, count, breaks)
	})
}
