package prefork

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// localSegment returns a segment in which this process is alone.
func localSegment(t *testing.T) *shared.Segment {
	t.Helper()
	s, err := shared.New(shared.Options{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fill makes this process worker 2.5, which is busy.
func fill(s *shared.Segment) {
	page := s.Page()
	for f, n := range map[shared.Field]uint64{
		shared.Slot: 2, shared.Generation: 5, shared.ProcessState: uint64(shared.Ready), shared.Heartbeat: uint64(s.Now() - int64(time.Second)),
		shared.Accepted: 100, shared.Done: 60, shared.Idle: 30, shared.InFlight: 10, shared.Oldest: uint64(s.Now() - int64(time.Minute)),
		shared.Status2xx: 1000, shared.Status4xx: 10, shared.BytesRead: 5000, shared.BytesWritten: 70_000_000,
		shared.HTTP2Connections: 9, shared.HTTP2Idle: 6, shared.HTTP2Streams: 8, shared.HTTP2Resets: 70, shared.HTTP2Calmed: 2,
		shared.HTTP3Connections: 5, shared.HTTP3Idle: 3, shared.HTTP3Streams: 4, shared.HTTP3Resets: 11, shared.HTTP3Calmed: 12, shared.HTTP3Retries: 13, shared.HTTP3Refused: 14, shared.HTTP3Lost: 15,
		shared.ResidentBytes: 12 << 20, shared.CPUTime: uint64(3 * time.Second), shared.Goroutines: 8, shared.GarbageCollections: 4,
	} {
		page.Set(f, n)
	}
}

// The master's notice and the scoreboard together make a status.
func TestMerge(t *testing.T) {
	s, own := localSegment(t), os.Getpid()
	fill(s)
	started := time.Now().Add(-time.Hour)
	n := &notice{
		Master: own + 1, Wanted: 2, Ready: true, Crashes: 3, Restarts: 1, LogDropped: 8, RestartsFailed: 2, RestartError: "no key", Soaking: true, Version: 3, GoodVersion: 2,
		Slots:   []SlotStatus{{Slot: 1, Hangs: 1, Adopter: 2}, {Slot: 2, Queue: 7, Restarts: 4, Hangs: 5, Adopter: -1}},
		Workers: []noticeWorker{{2, 5, own, 3, supervise.PhaseSpawned, started}, {1, 1, 0, 0, supervise.PhaseSpawned, started}}, // not in order
	}
	got := n.merge(s)
	if got.Wanted != 2 || !got.Ready || got.Crashes != 3 || got.Restarts != 1 || got.LogDropped != 8 || got.RestartsFailed != 2 || got.RestartError != "no key" || !got.Soaking || got.Version != 3 || got.GoodVersion != 2 || got.Hangs != 6 || len(got.Slots) != 2 || got.Master.PID != 0 {
		t.Errorf("%+v", got)
	}
	if len(got.Workers) != 2 || got.Workers[0].PID != 0 || got.Workers[0].Phase != "spawned" || got.Workers[0].Accepted != 0 {
		t.Fatalf("%+v", got.Workers)
	}
	w := got.Workers[1]
	if w.Slot != 2 || w.Generation != 5 || w.PID != own || w.Version != 3 || w.Phase != "ready" || !w.Started.Equal(started) {
		t.Errorf("%+v", w)
	}
	if w.HeartbeatAge < time.Second || w.HeartbeatAge > time.Hour || w.OldestRequest < time.Minute || w.OldestRequest > time.Hour {
		t.Errorf("heartbeat %v, oldest %v", w.HeartbeatAge, w.OldestRequest)
	}
	w.OldestRequest = 0
	if want := (Load{
		Accepted: 100, Done: 60, Active: 40, Idle: 30, InFlight: 10, Requests: 1010, Responses: [5]uint64{0, 1000, 0, 10}, BytesRead: 5000, BytesWritten: 70_000_000,
		HTTP2: sluice.HTTP2Stats{Connections: 9, Idle: 6, Streams: 8, Resets: 70, Calmed: 2},
		HTTP3: sluice.HTTP3Stats{Connections: 5, Idle: 3, Streams: 4, Resets: 11, Calmed: 12, Retries: 13, Refused: 14, Lost: 15},
	}); w.Load != want {
		t.Errorf("%+v, want %+v", w.Load, want)
	}
	if w.ResidentBytes != 12<<20 || w.CPUTime != 3*time.Second || w.Goroutines != 8 || w.GarbageCollections != 4 {
		t.Errorf("%+v", w.ProcessStatus)
	}
	got.Total.OldestRequest = 0
	if got.Total != w.Load {
		t.Errorf("%+v in total", got.Total)
	}
}

// Which processes are listed, and how, when the master and a process disagree.
func TestWhoIsListed(t *testing.T) {
	own := os.Getpid()
	known := func(p supervise.Phase) *notice {
		return &notice{Wanted: 1, Workers: []noticeWorker{{2, 5, own, 1, p, time.Now()}}}
	}
	for _, c := range []struct {
		name   string
		notice *notice
		change func(*shared.Segment)
		want   string
	}{
		{"both", known(supervise.PhaseReady), nil, "ready"},
		{"the worker is further", known(supervise.PhaseReady), func(s *shared.Segment) { s.Page().Set(shared.ProcessState, uint64(shared.Draining)) }, "draining"},
		{"the master is further", known(supervise.PhaseKilled), nil, "killed"},
		{"hung", known(supervise.PhaseHung), nil, "hung"},
		{"the master has not told", new(notice), nil, "ready"},
		{"it has no slot yet", new(notice), func(s *shared.Segment) { s.Page().Set(shared.Generation, 0) }, ""},
		{"it is the master", &notice{Master: own}, nil, ""},
		{"it has ended", known(supervise.PhaseReady), func(s *shared.Segment) { s.Reap(own) }, ""},
		{"it is not attached", &notice{Workers: []noticeWorker{{0, 1, own + 1, 1, supervise.PhaseReady, time.Now()}}}, func(s *shared.Segment) { s.Reap(own) }, "ready"},
	} {
		s := localSegment(t)
		fill(s)
		if c.change != nil {
			c.change(s)
		}
		got := c.notice.merge(s)
		var phases []string
		for _, w := range got.Workers {
			phases = append(phases, w.Phase)
		}
		if list := strings.Join(phases, " "); list != c.want {
			t.Errorf("%s: %q, want %q", c.name, list, c.want)
		}
		if got.Total.Accepted != 100 || got.Total.Requests != 1010 {
			t.Errorf("%s: %+v in total", c.name, got.Total)
		}
		if (got.Master.PID == own) != (c.notice.Master == own) {
			t.Errorf("%s: the master is %d", c.name, got.Master.PID)
		}
	}
}

// The names in the JSON must not change.
func TestStatusNames(t *testing.T) {
	text, err := json.Marshal(Status{Slots: make([]SlotStatus, 1), Workers: make([]WorkerStatus, 1)})
	if err != nil {
		t.Fatal(err)
	}
	load := `"accepted":0,"done":0,"cut":0,"active":0,"idle":0,"in_flight":0,"oldest_request_ns":0,"requests":0,"responses":[0,0,0,0,0],"bytes_read":0,"bytes_written":0,"http2":{"connections":0,"idle":0,"streams":0,"resets":0,"calmed":0},"http3":{"connections":0,"idle":0,"streams":0,"resets":0,"calmed":0,"retries":0,"refused":0,"lost":0}}`
	process := `"pid":0,"started":"0001-01-01T00:00:00Z","heartbeat_age_ns":0,"lag_ns":0,"resident_bytes":0,"cpu_ns":0,"goroutines":0,"garbage_collections":0`
	want := `{"wanted":0,"ready":false,"rolling":false,"soaking":false,"version":0,"good_version":0,"degraded":false,"paused":false,"stopping":false,"started":false,"profiles":false,"crashes":0,"hangs":0,"restarts":0,"restarts_failed":0,"restart_error":"","log_dropped":0,` +
		`"refused":0,"timed_out":0,"latency":{"p50_ns":0,"p90_ns":0,"p99_ns":0,"p999_ns":0},"slow_requests":null,` +
		`"master":{` + process + `},"total":{` + load +
		`,"slots":[{"slot":0,"generation":0,"queue":0,"version":0,"version_since":"0001-01-01T00:00:00Z","version_cause":"","restarts":0,"crashes":0,"hangs":0,"crash_reason":"","crashed":"0001-01-01T00:00:00Z","adopter":0,"retired":false}]` +
		`,"workers":[{"slot":0,"generation":0,"phase":"","version":0,` + process + `,` + load + `]}`
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// Empty lists are lists in JSON, too: scripts iterate over them.
func TestStatusHasLists(t *testing.T) {
	for name, s := range map[string]Status{
		"not running": new(Prefork).Status(),
		"no workers":  new(notice).merge(localSegment(t)),
	} {
		text, err := json.Marshal(s)
		if err != nil || !strings.Contains(string(text), `"slots":[],"workers":[]`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

func TestStatusText(t *testing.T) {
	s := localSegment(t)
	fill(s)
	n := &notice{Wanted: 3, Rolling: true, Crashes: 4, Slots: []SlotStatus{{Slot: 1, Adopter: 2}, {Slot: 2, Adopter: -1, Queue: 17}, {Slot: 3, Adopter: -1, Retired: true}}}
	text := n.merge(s).String()
	for _, want := range []string{
		"workers: 3 wanted, 1 ready, being replaced; version 0; crashes 4 (hangs 0)", "requests: 1010, in progress 10, the oldest for 1m0s", " 2xx 1000 ", "66.8M written",
		" 12.0M ", " 3s ", "17", "nobody", "itself",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 1234567: "1ms", 1234 * time.Millisecond: "1.23s", 61 * time.Minute: "1h1m0s", 75 * time.Hour: "3d3h",
	} {
		if got := short(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 1023: "1023", 1024: "1.0K", 1 << 63: "8.0E"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if text := (Status{}).String(); !strings.HasPrefix(text, "workers: 0 wanted") {
		t.Error(text)
	}
}
