package prefork

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// Workers read what the master stores, even for the largest fleet with the longest
// numbers.
func TestNotice(t *testing.T) {
	s := localSegment(t)
	if n := readNotice(s); n.Wanted != 0 || len(n.Workers) != 0 {
		t.Errorf("before there is one: %+v", n)
	}
	c := supervise.Config{}
	p := newPublisher(&c, s)
	n := &notice{Master: math.MaxInt32, Crashes: math.MaxInt32, Restarts: math.MaxInt32, Wanted: s.Processes()}
	for i := range s.Processes() {
		many := math.MaxInt32
		n.Slots = append(n.Slots, SlotStatus{1000 + i, many, many, many, time.Now().UTC().Round(0), "rollback", many, many, many, strings.Repeat("x", 120), time.Now().UTC().Round(0), 1000, false})
		n.Workers = append(n.Workers, noticeWorker{1000 + i, many, many, many, supervise.PhaseDraining, time.Now()})
	}
	p.store(n)
	got := readNotice(s)
	last := s.Processes() - 1
	if got.Wanted != last+1 || len(got.Slots) != last+1 || len(got.Workers) != last+1 || got.Slots[last] != n.Slots[last] ||
		got.Workers[last].PID != math.MaxInt32 || !got.Workers[last].Started.Equal(n.Workers[last].Started) {
		t.Fatalf("%+v", got)
	}
	room := 4<<10 + 768*s.Processes()
	if err, more := p.place.Store(make([]byte, room)), p.place.Store(make([]byte, room+1)); err != nil || more == nil {
		t.Errorf("room for %d bytes: %v, %v", room, err, more)
	}
	p.last = nil
	p.store(n)
	version := p.place.Version()
	p.store(n)
	if p.place.Version() != version {
		t.Error("stored again though nothing has changed")
	}
	n.Crashes--
	p.store(n)
	if got := readNotice(s); got.Crashes != n.Crashes || p.place.Version() == version {
		t.Errorf("%d crashes", got.Crashes)
	}
}

// A segment without room and an invalid notice do no harm.
func TestNoNotice(t *testing.T) {
	full, err := shared.New(shared.Options{Local: true, Size: 256 << 10, Processes: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, free := full.Size(); free > 4096; _, free = full.Size() {
		if _, err := full.Config(time.Now().String(), 512); err != nil {
			break
		}
	}
	c := supervise.Config{Logger: newTestLogger(t)}
	p := newPublisher(&c, full)
	p.store(newNotice(supervise.Status{Wanted: 3}))
	if n := readNotice(full); n.Wanted != 0 {
		t.Errorf("%+v", n)
	}
	s := localSegment(t)
	if err := noticePlace(s).Store([]byte(`{"Wanted":3,`)); err != nil {
		t.Fatal(err)
	}
	if n := readNotice(s); n.Wanted != 0 {
		t.Errorf("%+v", n)
	}
}

type testLogger struct{ t *testing.T }

func newTestLogger(t *testing.T) testLogger { return testLogger{t} }

func (l testLogger) Printf(format string, args ...any) { l.t.Logf(format, args...) }

// Hooks still do their work, and wake the publisher.
func TestPublisherKeepsHooks(t *testing.T) {
	called := 0
	bad := errors.New("bad")
	c := supervise.Config{OnReaped: func(_, _ int) { called++ }, Hooks: supervise.Hooks{
		OnSpawn:      func(_, _ int) error { called++; return bad },
		OnRecover:    func(_, _, _ int) { called++ },
		OnFleetReady: func() { called++ },
		OnStopping:   func() { called++ },
	}}
	none := supervise.Config{}
	p, q := newPublisher(&c, localSegment(t)), newPublisher(&none, localSegment(t))
	for i, hooks := range []func(c *supervise.Config){
		func(c *supervise.Config) {
			if err := c.Hooks.OnSpawn(0, 1); err != nil && !errors.Is(err, bad) {
				t.Error(err)
			}
		},
		func(c *supervise.Config) { c.Hooks.OnRecover(0, 1, 2) },
		func(c *supervise.Config) { c.Hooks.OnFleetReady() },
		func(c *supervise.Config) { c.Hooks.OnStopping() },
		func(c *supervise.Config) { c.OnReaped(0, 1) },
	} {
		hooks(&c)
		hooks(&none)
		if called != i+1 {
			t.Errorf("hook %d was not called", i)
		}
		for _, changed := range []chan struct{}{p.changed, q.changed} {
			select {
			case <-changed:
			default:
				t.Errorf("hook %d does not say that something has changed", i)
			}
		}
	}
	if c.Hooks.OnSpawn(0, 1) != bad {
		t.Error("the hook's error is lost")
	}
}

// A process's values and its server's counters are on its page.
func TestPageWriter(t *testing.T) {
	s := localSegment(t)
	page := s.Page()
	page.Word(shared.Accepted).Add(7)
	m := newMeter(s, new(slowList))
	m.Done.Add(3)
	m.Accepted.Add(3)
	m.Status[1].Add(20)
	m.Status[4].Add(1)
	m.BytesRead.Add(100)
	m.BytesWritten.Add(200)
	w := newPageWriter(s, page, m)
	defer w.close()
	w.write(0)
	w.last = w.last.Add(-time.Millisecond)
	w.write(0)
	got, _ := s.Process(os.Getpid())
	if got.Accepted != 10 || got.Done != 3 || got.Active != 7 || got.Idle != 7 || got.InFlight != 0 || got.Oldest != 0 ||
		got.Requests != 21 || got.BytesRead != 100 || got.BytesWritten != 200 {
		t.Errorf("%+v", got)
	}
	if got.Goroutines == 0 || got.Lag < time.Millisecond || got.Heartbeat == 0 {
		t.Errorf("%+v", got)
	}
	if w.usage.cpu() > 0 && got.CPUTime == 0 || w.usage.resident() > 0 && got.ResidentBytes < 1<<20 {
		t.Errorf("%+v", got)
	}
	if n := testing.AllocsPerRun(20, func() { w.write(0) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Connections without a request, of all protocols.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		active, inFlight uint64
		http2            sluice.HTTP2Stats
		http3            sluice.HTTP3Stats
		want             uint64
	}{
		{10, 3, sluice.HTTP2Stats{}, sluice.HTTP3Stats{}, 7},
		{10, 103, sluice.HTTP2Stats{Connections: 1, Streams: 100}, sluice.HTTP3Stats{}, 6},
		{10, 103, sluice.HTTP2Stats{Connections: 4, Idle: 3, Streams: 100}, sluice.HTTP3Stats{}, 6},
		{1, 9, sluice.HTTP2Stats{Connections: 2, Streams: 3}, sluice.HTTP3Stats{}, 0}, // values of slightly different times
		{10, 8, sluice.HTTP2Stats{Connections: 2, Idle: 1, Streams: 3}, sluice.HTTP3Stats{Connections: 3, Idle: 2, Streams: 4}, 7},
	} {
		if got := idle(c.active, c.inFlight, &c.http2, &c.http3); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// A lack of room for the notice is logged, if there is a log.
func TestNoRoomForNotice(t *testing.T) {
	full := shared.Must(shared.New(shared.Options{Size: 64 << 10, Processes: 10, Local: true}))
	for _, c := range []struct {
		segment *shared.Segment
		want    int
	}{{localSegment(t), 0}, {full, 1}} {
		log := &lines{}
		p := newPublisher(&supervise.Config{Logger: log}, c.segment)
		if len(log.all) != c.want || (p.place == nil) != (c.want > 0) {
			t.Errorf("log %q, room: %v", log.all, p.place != nil)
		}
		newPublisher(&supervise.Config{}, c.segment).store(&notice{})
		if n := readNotice(c.segment); n == nil {
			t.Error("there is no notice")
		}
	}
}

// A process's page says when it was started, unless the master knows it.
func TestStartedOfProcess(t *testing.T) {
	page, master := time.Unix(1000, 0), time.Unix(2000, 0)
	for _, known := range []time.Time{{}, master} {
		s := ProcessStatus{Started: known}
		s.add(&shared.Process{PID: 7, StartedAt: page, Heartbeat: 5, Lag: 3}, 9)
		want := master
		if known.IsZero() {
			want = page
		}
		if !s.Started.Equal(want) || s.PID != 7 || s.HeartbeatAge != 4 || s.Lag != 3 {
			t.Errorf("%+v, want the start at %v", s, want)
		}
	}
	// Clocks of slightly different times.
	w := WorkerStatus{}
	if w.add(&shared.Process{Heartbeat: 11, Oldest: 10}, 9); w.HeartbeatAge != 0 || w.OldestRequest != 0 {
		t.Errorf("%+v", w)
	}
	if w.add(&shared.Process{Oldest: 1}, 9); w.OldestRequest != 8 {
		t.Errorf("the oldest request is %v old", w.OldestRequest)
	}
}

// What is read of package runtime/metrics and not there is zero.
func TestNoSample(t *testing.T) {
	s := localSegment(t)
	w := newPageWriter(s, s.Page(), nil)
	defer w.close()
	w.samples[0].Name = "/no/such:metric"
	if w.write(0); w.sample(0) != 0 || s.Page().Get(shared.Goroutines) != 0 {
		t.Errorf("%d", w.sample(0))
	}
}

// A process writes its page four times a second until it ends.
func TestPageIsWritten(t *testing.T) {
	s := localSegment(t)
	page := s.Page()
	synctest.Test(t, func(t *testing.T) {
		stop, ended := make(chan struct{}), make(chan struct{})
		b := &board{segment: s, page: page}
		go func() {
			b.write(nil, stop)
			close(ended)
		}()
		synctest.Wait()
		page.Set(shared.Lag, 7)
		page.Set(shared.Heartbeat, 0)
		time.Sleep(250*time.Millisecond - 1)
		synctest.Wait()
		if page.Get(shared.Heartbeat) != 0 {
			t.Error("it was written early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if page.Get(shared.Heartbeat) == 0 || page.Get(shared.Lag) != 0 {
			t.Errorf("heartbeat %d, lag %d", page.Get(shared.Heartbeat), page.Get(shared.Lag))
		}
		close(stop)
		<-ended
	})
}

// The master writes its status at once after a hook, otherwise each second.
func TestPublishing(t *testing.T) {
	s := localSegment(t)
	page := s.Page()
	m, err := supervise.New(supervise.Config{Workers: 1, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	defer m.Run(ctx) // frees what it has
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPublisher(&supervise.Config{}, s)
		ended := make(chan struct{})
		go func() {
			p.publish(ctx, m)
			close(ended)
		}()
		isWrittenAfter := func(pause time.Duration) {
			t.Helper()
			page.Set(shared.Heartbeat, 0)
			time.Sleep(pause - 1)
			synctest.Wait()
			if page.Get(shared.Heartbeat) != 0 {
				t.Errorf("it was written before %v", pause)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if page.Get(shared.Heartbeat) == 0 || readNotice(s).Wanted != 1 {
				t.Errorf("it was not written after %v", pause)
			}
		}
		synctest.Wait()
		isWrittenAfter(time.Second)
		p.publishSoon()
		isWrittenAfter(10 * time.Millisecond)
		isWrittenAfter(time.Second - 10*time.Millisecond) // the ticker goes on
		p.publishSoon()
		synctest.Wait()
		began := time.Now()
		cancel()
		<-ended
		if took := time.Since(began); took != 0 {
			t.Errorf("it ended after %v", took)
		}
	})
}
