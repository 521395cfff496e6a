package prefork

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// A notice holds what only the master knows. Workers read it from the segment, as
// JSON.
type notice struct {
	Master                                     int
	Wanted                                     int
	Ready, Rolling, Degraded, Paused, Stopping bool
	Started                                    bool
	Crashes, Restarts, LogDropped              int
	RestartsFailed                             int
	Soaking                                    bool
	Version, GoodVersion                       int
	RestartError                               string
	Slots                                      []SlotStatus
	Workers                                    []noticeWorker
}

// A noticeWorker is a process that the master has started.
type noticeWorker struct {
	Slot, Generation, PID int
	Version               int
	Phase                 supervise.Phase
	Started               time.Time
}

// newNotice returns what this process, the master, knows.
func newNotice(from supervise.Status) *notice {
	n := &notice{
		Master: os.Getpid(), Wanted: from.Wanted, Ready: from.Ready, Rolling: from.Rolling, Degraded: from.Degraded,
		Paused: from.Paused, Stopping: from.Stopping, Started: from.Started, Crashes: from.Crashes, Restarts: from.Restarts,
		LogDropped: from.LogDropped, RestartsFailed: from.RestartsFailed, RestartError: from.RestartError,
		Soaking: from.Soaking, Version: from.Version, GoodVersion: from.GoodVersion,
	}
	for _, s := range from.Slots {
		n.Slots = append(n.Slots, SlotStatus{
			Slot: s.Slot, Generation: s.Generation, Queue: s.Queue, Restarts: s.Restarts, Crashes: s.Crashes, Hangs: s.Hangs,
			Adopter: s.Adopter, Retired: s.Retired, CrashReason: printable(s.Crash, crashReason), Crashed: s.Crashed, Version: s.Version, VersionSince: s.Since, VersionCause: s.Cause.String(),
		})
		for _, w := range s.Workers {
			n.Workers = append(n.Workers, noticeWorker{s.Slot, w.Generation, w.PID, w.Version, w.Phase, w.Started})
		}
	}
	return n
}

// merge returns n with what the processes report about themselves.
func (n *notice) merge(segment *shared.Segment) Status {
	s := Status{
		Wanted: n.Wanted, Ready: n.Ready, Rolling: n.Rolling, Degraded: n.Degraded, Paused: n.Paused, Stopping: n.Stopping, Started: n.Started,
		Crashes: n.Crashes, Restarts: n.Restarts, LogDropped: n.LogDropped,
		RestartsFailed: n.RestartsFailed, RestartError: n.RestartError,
		Soaking: n.Soaking, Version: n.Version, GoodVersion: n.GoodVersion,
		Slots: append([]SlotStatus{}, n.Slots...), Workers: []WorkerStatus{}, // in JSON [], never null
	}
	for _, slot := range n.Slots {
		s.Hangs += slot.Hangs
	}
	now := segment.Now()
	processes := segment.Scoreboard(nil)
	for _, w := range n.Workers {
		status := WorkerStatus{Slot: w.Slot, Generation: w.Generation, Version: w.Version, Phase: w.Phase.String(), ProcessStatus: ProcessStatus{PID: w.PID, Started: w.Started}}
		if i := slices.IndexFunc(processes, func(p shared.Process) bool { return p.PID == w.PID }); i >= 0 {
			status.add(&processes[i], now)
			status.Phase = laterPhase(w.Phase, processes[i].State).String()
			processes = slices.Delete(processes, i, i+1)
		} else if p, isFound := segment.Process(w.PID); isFound && p.State == shared.Stopped {
			continue // it has ended since
		}
		s.Workers = append(s.Workers, status)
	}
	for i := range processes {
		p := &processes[i]
		switch {
		case p.PID == n.Master:
			s.Master.add(p, now)
		case p.Generation > 0 && p.State != shared.Stopped: // the master has not told yet
			status := WorkerStatus{Slot: p.Slot, Generation: int(p.Generation), Phase: laterPhase(supervise.PhaseSpawned, p.State).String()}
			status.add(p, now)
			s.Workers = append(s.Workers, status)
		}
	}
	slices.SortStableFunc(s.Workers, func(a, b WorkerStatus) int { return cmp.Compare(a.Slot, b.Slot) })
	s.Total = totalOf(segment, s.Workers)
	s.SlowRequests = slowRequests(segment, len(s.Slots), time.Now())
	s.Refused, s.TimedOut = countOf(segment, refusedName), countOf(segment, timedOutName)
	s.Latencies = latencyOf(segment)
	s.Latency = latencyStatus(s.Latencies)
	return s
}

// laterPhase returns a worker's phase: the later one of what the master knows and
// of what the worker reports.
func laterPhase(p supervise.Phase, s shared.State) supervise.Phase {
	own := supervise.PhaseSpawned
	switch s {
	case shared.Ready:
		own = supervise.PhaseReady
	case shared.Draining, shared.Stopped:
		own = supervise.PhaseDraining
	}
	return max(p, own)
}

// add copies the values of a worker's page.
func (w *WorkerStatus) add(p *shared.Process, now int64) {
	w.ProcessStatus.add(p, now)
	requests := uint64(0)
	for _, n := range p.Status {
		requests += n
	}
	w.Load = Load{
		Accepted: p.Accepted, Done: p.Done, Active: p.Accepted - p.Done, InFlight: p.InFlight,
		Requests: requests, Responses: p.Status, BytesRead: p.BytesRead, BytesWritten: p.BytesWritten,
		HTTP2: sluice.HTTP2Stats{
			Connections: int(p.HTTP2Connections), Idle: int(p.HTTP2Idle), Streams: int(p.HTTP2Streams),
			Resets: p.HTTP2Resets, Calmed: p.HTTP2Calmed,
		},
		HTTP3: sluice.HTTP3Stats{
			Connections: int(p.HTTP3Connections), Idle: int(p.HTTP3Idle), Streams: int(p.HTTP3Streams),
			Resets: p.HTTP3Resets, Calmed: p.HTTP3Calmed, Retries: p.HTTP3Retries, Refused: p.HTTP3Refused, Lost: p.HTTP3Lost,
		},
	}
	w.Idle = min(p.Idle, w.Active)
	if p.Oldest != 0 {
		w.OldestRequest = time.Duration(max(now-p.Oldest, 0))
	}
}

// add copies the values of a process's page.
func (s *ProcessStatus) add(p *shared.Process, now int64) {
	s.PID = p.PID
	if s.Started.IsZero() {
		s.Started = p.StartedAt
	}
	s.HeartbeatAge = time.Duration(max(now-p.Heartbeat, 0))
	s.Lag = p.Lag
	s.ResidentBytes, s.CPUTime, s.Goroutines, s.GarbageCollections = p.ResidentBytes, p.CPUTime, p.Goroutines, p.GarbageCollections
}

// totalOf adds up the present load of the living workers. It takes the counters
// from all processes, including those that have ended.
func totalOf(segment *shared.Segment, workers []WorkerStatus) (t Load) {
	for i := range workers {
		w := &workers[i]
		t.Active += w.Active
		t.Idle += w.Idle
		t.InFlight += w.InFlight
		t.OldestRequest = max(t.OldestRequest, w.OldestRequest)
		t.HTTP2.Connections += w.HTTP2.Connections
		t.HTTP2.Idle += w.HTTP2.Idle
		t.HTTP2.Streams += w.HTTP2.Streams
		t.HTTP3.Connections += w.HTTP3.Connections
		t.HTTP3.Idle += w.HTTP3.Idle
		t.HTTP3.Streams += w.HTTP3.Streams
	}
	accepted, done, traffic := segment.Total()
	t.Accepted, t.Done, t.Cut = accepted, done, traffic.Cut
	t.Responses, t.BytesRead, t.BytesWritten = traffic.Status, traffic.BytesRead, traffic.BytesWritten
	t.HTTP2.Resets, t.HTTP2.Calmed = traffic.HTTP2Resets, traffic.HTTP2Calmed
	t.HTTP3.Resets, t.HTTP3.Calmed, t.HTTP3.Retries = traffic.HTTP3Resets, traffic.HTTP3Calmed, traffic.HTTP3Retries
	t.HTTP3.Refused, t.HTTP3.Lost = traffic.HTTP3Refused, traffic.HTTP3Lost
	for _, n := range traffic.Status {
		t.Requests += n
	}
	return t
}
