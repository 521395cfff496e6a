package prefork

import (
	"strings"
	"testing"
	"time"
)

// Each number of a status is in its place in the text.
func TestStatusTextInFull(t *testing.T) {
	load := Load{
		Accepted: 11, Done: 7, Cut: 1, Active: 4, Idle: 3, InFlight: 2, OldestRequest: 1500 * time.Millisecond,
		Requests: 21, Responses: [5]uint64{1, 2, 3, 4, 5}, BytesRead: 1023, BytesWritten: 1536,
	}
	process := ProcessStatus{PID: 4711, HeartbeatAge: 12 * time.Millisecond, ResidentBytes: 5 << 20, CPUTime: 61 * time.Second, Goroutines: 31, GarbageCollections: 32}
	s := Status{
		Wanted: 2, Version: 48, GoodVersion: 49, Rolling: true, Soaking: true, Degraded: true, Paused: true, Stopping: true, Crashes: 41, Hangs: 42, Restarts: 43,
		RestartsFailed: 44, RestartError: "why", LogDropped: 45, Refused: 46, TimedOut: 47,
		Latency: LatencyStatus{123_400, 1_234_400, 12_300_000, 1500 * time.Millisecond}, Master: process, Total: load,
		Workers: []WorkerStatus{{Slot: 0, Generation: 51, Version: 48, Phase: "ready", ProcessStatus: process, Load: load}, {Slot: 1, Generation: 52, Phase: "spawned"}},
		Slots: []SlotStatus{
			{Slot: 0, Generation: 51, Queue: 61, Version: 48, VersionSince: time.Now().Add(-3 * time.Second), VersionCause: "upgrade", Restarts: 62, Crashes: 63, Hangs: 64, Adopter: -1},
			{Slot: 1, Generation: 52, Adopter: 0, Retired: true}, {Slot: 2, Adopter: -1, Retired: true},
		},
	}
	const want = `workers: 2 wanted, 1 ready, being replaced, soaking, degraded, paused, stopping; version 48, or 49 if it fails; crashes 41 (hangs 42), rolling restarts 43
the last restart failed, one of 44: why
log: 45 lines were dropped, it is not read fast enough
master: process 4711, up 0s, heard of 12ms ago, 5.0M of memory, 1m1s of CPU time
connections: 11 accepted, 7 done (1 cut), 46 refused, 4 open, 3 of them idle
requests: 21, in progress 2, the oldest for 1.5s; by class of status 1xx 1 2xx 2 3xx 3 4xx 4 5xx 5; 47 timed out; 1023 read, 1.5K written
latency: 50% 123µs, 90% 1.234ms, 99% 12ms, 99.9% 1.5s
slot gen version pid phase up open idle in progress oldest accepted requests 4xx 5xx read written memory cpu goroutines gc heard
0 51 48 4711 ready 0s 4 3 2 1.5s 11 21 4 5 1023 1.5K 5.0M 1m1s 31 32 12ms
1 52 0 0 spawned 0s 0 0 0 0s 0 0 0 0 0 0 0 0s 0 0 0s
slot gen queue version since cause restarts crashes hangs served by
0 51 61 48 3s upgrade 62 63 64 itself
1 52 0 0 0s 0 0 0 0
2 0 0 0 0s 0 0 0 nobody
`
	var got strings.Builder
	for line := range strings.Lines(s.String()) {
		if fields := strings.Fields(line); len(fields) > 0 {
			got.WriteString(strings.Join(fields, " ") + "\n")
		}
	}
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

// The columns are to the right, two blanks apart.
func TestStatusTables(t *testing.T) {
	const want = `workers: 0 wanted, 0 ready; version 0; crashes 0 (hangs 0), rolling restarts 0
connections: 0 accepted, 0 done (0 cut), 0 refused, 0 open, 0 of them idle
requests: 0, in progress 0, the oldest for 0s; by class of status 1xx 0 2xx 0 3xx 0 4xx 0 5xx 0; 0 timed out; 0 read, 0 written
latency: 50% 0s, 90% 0s, 99% 0s, 99.9% 0s

  slot  gen  version  pid    phase  up  open  idle  in progress  oldest  accepted  requests  4xx  5xx  read  written  memory  cpu  goroutines  gc  heard
     0    0        0    0  spawned  0s     0     0            0      0s         0         0    0    0     0        0       0   0s           0   0     0s

  slot  gen  queue  version  since  cause  restarts  crashes  hangs  served by
     0    0      0        0     0s                0        0      0          0
`
	s := Status{Workers: []WorkerStatus{{Phase: "spawned"}}, Slots: []SlotStatus{{}}}
	if got := s.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	s.LogDropped, s.Master.PID = 1, 1
	if got := s.String(); !strings.Contains(got, "log: 1 lines") || !strings.Contains(got, "master: process 1,") {
		t.Error(got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 499 * time.Microsecond: "0s", 500 * time.Microsecond: "1ms", 999 * time.Millisecond: "999ms", time.Second: "1s", 1234567 * time.Microsecond: "1.23s",
		time.Minute - time.Millisecond: "1m0s", time.Minute: "1m0s", 61500 * time.Millisecond: "1m2s", 48*time.Hour - time.Second: "47h59m59s",
		48 * time.Hour: "2d0h", 75*time.Hour + 59*time.Minute: "3d3h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{
		0: "0", 1023: "1023", 1024: "1.0K", 1536: "1.5K", 1 << 20: "1.0M", 1 << 30: "1.0G", 1 << 40: "1.0T", 1 << 50: "1.0P", 1 << 60: "1.0E", 1<<64 - 1: "16.0E",
	} {
		if got := size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
