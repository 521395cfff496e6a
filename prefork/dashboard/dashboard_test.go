package dashboard

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/pprofhandler"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
	"github.com/sluicehttp/sluice/sse"
)

// serve returns the address of a server of handler, and its Single.
func serve(t *testing.T, handler func(s *prefork.Single) sluice.RequestHandler) string {
	t.Helper()
	server := &sluice.Server{Logger: log.New(io.Discard, "", 0)}
	server.Handler = handler(prefork.NewSingle(server))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// The page and its files are served below any path, and the browser lets it use nothing else.
func TestFiles(t *testing.T) {
	addr := serve(t, func(s *prefork.Single) sluice.RequestHandler { return Handler(s) })
	for _, c := range []struct {
		method, path string
		status       int
		mediaType    string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/below/this/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/below/dashboard.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/dashboard.css", 200, "text/css; charset=utf-8"},
		{"GET", "/other", 404, ""},
		{"POST", "/", 405, ""},
		{"POST", "/dashboard.events", 405, ""},
	} {
		req, err := http.NewRequest(c.method, "http://"+addr+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html,*/*;q=0.8")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || c.mediaType != "" && resp.Header.Get("Content-Type") != c.mediaType {
			t.Errorf("%s %s: %d, %v", c.method, c.path, resp.StatusCode, resp.Header)
		}
		if c.status == 200 && (resp.Header.Get("Content-Security-Policy") != policy || resp.Header.Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s: %v", c.path, resp.Header)
		}
		if c.status == 200 && (len(body) == 0) != (c.method == "HEAD") {
			t.Errorf("%s %s: %d bytes", c.method, c.path, len(body))
		}
		if bytes.Contains(body, []byte("style=")) || bytes.Contains(body, []byte("innerHTML")) || bytes.Contains(body, []byte("http:")) || bytes.Contains(body, []byte("https:")) {
			t.Errorf("%s has what its policy forbids", c.path)
		}
	}
	for name := range types {
		if content, err := page.ReadFile("page/" + name); err != nil || len(content) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A stream begins with the past, and shows a request within a second, with what it was.
func TestEvents(t *testing.T) {
	addr := serve(t, func(s *prefork.Single) sluice.RequestHandler {
		s.Profiles = pprofhandler.PprofHandler
		shown := Handler(s)
		return func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/slow" {
				time.Sleep(30 * time.Millisecond)
				ctx.Error("", sluice.StatusTeapot)
				return
			}
			shown(ctx)
		}
	})
	resp, err := http.Get("http://" + addr + "/dashboard.events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := sse.NewReader(resp.Body)
	first, err := events.Next()
	if err != nil || first.Name != "past" || string(first.Data) != "[]" {
		t.Fatalf("%+v, %v", first, err)
	}
	if slow, err := http.Get("http://" + addr + "/slow?query"); err != nil || slow.Body.Close() != nil {
		t.Fatal(err)
	}
	for {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		var m moment
		if err := json.Unmarshal(e.Data, &m); err != nil || e.Name != "now" || !m.Status.Profiles || len(m.Status.Workers) != 1 || m.Point.Memory == 0 {
			t.Fatalf("%s %s: %v", e.Name, e.Data, err)
		}
		if m.Point.Client > 0 {
			r := m.Status.SlowRequests // on a busy machine others are slow, too
			if i := slices.IndexFunc(r, func(r prefork.SlowRequest) bool { return r.Path == "/slow" }); i < 0 || r[i].Status != sluice.StatusTeapot || m.Point.P50 == 0 {
				t.Errorf("%+v, %+v", r, m.Point)
			}
			break
		}
	}
	again, err := http.Get("http://" + addr + "/dashboard.events")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if e, err := sse.NewReader(again.Body).Next(); err != nil || !strings.HasPrefix(string(e.Data), `[{"t":`) {
		t.Errorf("a second page gets %s, %v", e.Data, err)
	}
}

// A fixed is a Source that never changes.
type fixed struct{ status prefork.Status }

func (f *fixed) Status() prefork.Status {
	s := f.status
	s.Latencies = new(shared.Snapshot)
	s.Workers, s.Slots = slices.Clone(s.Workers), slices.Clone(s.Slots)
	return s
}

// However large a fleet is, and however long the page is open, events can be sent.
func TestEventsAreBounded(t *testing.T) {
	load := prefork.Load{
		Accepted: math.MaxUint64, Done: math.MaxUint64, Cut: math.MaxUint64, Active: math.MaxUint64, Idle: math.MaxUint64,
		InFlight: math.MaxUint64, OldestRequest: math.MaxInt64, Requests: math.MaxUint64, BytesRead: math.MaxUint64, BytesWritten: math.MaxUint64,
		HTTP2: sluice.HTTP2Stats{Connections: math.MaxInt, Idle: math.MaxInt, Streams: math.MaxInt, Resets: math.MaxUint64, Calmed: math.MaxUint64},
		HTTP3: sluice.HTTP3Stats{Connections: math.MaxInt, Idle: math.MaxInt, Streams: math.MaxInt, Resets: math.MaxUint64, Calmed: math.MaxUint64, Retries: math.MaxUint64, Refused: math.MaxUint64, Lost: math.MaxUint64},
	}
	process := prefork.ProcessStatus{
		PID: 1 << 22, Started: time.Unix(1<<33, 1), HeartbeatAge: math.MaxInt64, Lag: math.MaxInt64, ResidentBytes: math.MaxUint64,
		CPUTime: math.MaxInt64, Goroutines: math.MaxUint64, GarbageCollections: math.MaxUint64,
	}
	source := &fixed{}
	s := &source.status
	s.Total, s.Master = load, process
	s.RestartError = strings.Repeat("\x00", 4<<10) // the longest that the master keeps
	for range 4096 {
		s.Workers = append(s.Workers, prefork.WorkerStatus{Slot: 4096, Generation: math.MaxInt, Phase: "spawned", ProcessStatus: process, Load: load})
		s.Slots = append(s.Slots, prefork.SlotStatus{Slot: 4096, Generation: math.MaxInt, Queue: math.MaxInt, Restarts: math.MaxInt, Crashes: math.MaxInt, Hangs: math.MaxInt,
			Version: math.MaxInt, VersionSince: process.Started, VersionCause: "rollback", CrashReason: strings.Repeat("x", 120), Crashed: process.Started})
		s.SlowRequests = append(s.SlowRequests, prefork.SlowRequest{PID: 1 << 22, Path: strings.Repeat("x", 120), Method: "OPTIONS", Took: math.MaxInt64})
	}
	d := newSampler(source)
	d.read(time.Now())
	d.sample(time.Now()) // panics if it cannot be sent
	source.status = prefork.Status{}
	for i := range 2 * maxPoints {
		d.sample(time.Unix(1<<33+int64(i), 0))
	}
	if n := len(d.points); n != maxPoints || d.points[n-1].Time != 1000*(1<<33+2*int64(maxPoints)-1) {
		t.Errorf("%d points", n)
	}
	for i := range d.points {
		d.points[i] = point{math.MaxInt64, 1e9, 1e9, 1e9, 1e9, 1e12, 1e12, 1e12, 1e12, 1e9, 1e9, 1e9, 1e9, 1e9, 1024.125, 1e15}
	}
	if e := d.past(); len(e) != 1 || len(e[0].Data) > sse.MaxEvent {
		t.Errorf("the past has %d bytes", len(e[0].Data))
	}
}

// Samples are taken from the first visit until five minutes after the last one.
func TestSamplerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSampler(&fixed{})
		isRunning := func() (yes bool, points int) {
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.running, len(d.points)
		}
		d.begin()
		d.begin()
		time.Sleep(4*time.Minute + interval/2)
		if yes, n := isRunning(); !yes || n != 480 {
			t.Errorf("%v, %d points", yes, n)
		}
		d.begin()
		time.Sleep(4 * time.Minute)
		if yes, n := isRunning(); !yes || n != maxPoints {
			t.Errorf("%v, %d points", yes, n)
		}
		time.Sleep(2 * time.Minute)
		if yes, _ := isRunning(); yes {
			t.Error("it does not end")
		}
		d.begin()
		if yes, n := isRunning(); !yes || n != 0 {
			t.Errorf("%v, %d points", yes, n)
		}
		time.Sleep(11 * time.Minute)
	})
}

// Rates are those between two samples. Workers that have ended or come do not disturb them.
func TestPoint(t *testing.T) {
	worker := func(pid int, cpu time.Duration) prefork.WorkerStatus {
		return prefork.WorkerStatus{ProcessStatus: prefork.ProcessStatus{PID: pid, CPUTime: cpu, ResidentBytes: 10}}
	}
	old := prefork.Status{Workers: []prefork.WorkerStatus{worker(1, time.Second), worker(2, 7*time.Second)}}
	old.Total.Responses = [5]uint64{1, 10, 20, 30, 40}
	now := prefork.Status{Workers: []prefork.WorkerStatus{worker(1, 2*time.Second), worker(3, time.Second)}}
	now.Total.Responses = [5]uint64{1, 14, 21, 30, 39} // the last one began anew
	now.Total.Active, now.Total.Idle, now.Total.InFlight, now.Total.HTTP2.Connections, now.Total.HTTP3.Connections = 5, 4, 3, 2, 1
	now.Master = prefork.ProcessStatus{PID: 9, ResidentBytes: 100, CPUTime: time.Second}
	got := pointOf(&old, &now, new(shared.Snapshot), 2*time.Second)
	if want := (point{OK: 2, Redirect: .5, Open: 5, Idle: 4, Flight: 3, HTTP2: 2, HTTP3: 1, CPU: 1.5, Memory: 120}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := pointOf(&now, &old, new(shared.Snapshot), 0); got.CPU != max(got.CPU, 0) || got.Server != 1000 {
		t.Errorf("%+v", got)
	}
}

// Tables are shown up to a bound, so that the event stays small.
func TestTables(t *testing.T) {
	rows := func(n, size int) func() [][]string {
		return func() (all [][]string) {
			for range n {
				all = append(all, []string{strings.Repeat("x", size), "y"})
			}
			return all
		}
	}
	room := maxCells
	for _, c := range []struct {
		table Table
		rows  int
	}{
		{Table{"none", []string{"a", "b"}, rows(0, 0)}, 0},
		{Table{"many", []string{"a", "b"}, rows(1000, 1)}, maxRows},
		{Table{"long", []string{"a", "b"}, rows(10, maxCells/5)}, 4},
		{Table{"no room", []string{"a", "b"}, rows(1, 1)}, 0},
	} {
		shown := c.table.show(&room)
		if len(shown.Rows) != c.rows || shown.Rows == nil || shown.Title != c.table.Title || len(shown.Columns) != 2 {
			t.Errorf("%s: %d rows, want %d", c.table.Title, len(shown.Rows), c.rows)
		}
	}
}
