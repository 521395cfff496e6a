package shared

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Must passes values on and panics with errors.
func TestMust(t *testing.T) {
	if n := Must(3, nil); n != 3 {
		t.Errorf("%d", n)
	}
	defer func() {
		if reason := recover(); reason != ErrName {
			t.Errorf("it panics with %v", reason)
		}
	}()
	Must(0, ErrName)
	t.Error("it does not panic")
}

// Every field of a page is in the snapshot, and every counter in the total.
func TestSnapshotIsWhole(t *testing.T) {
	s := newLocal(t)
	page := s.Page()
	for f := range fieldEnd {
		page.Set(f, 1000+uint64(f))
	}
	page.Set(fieldPID, uint64(os.Getpid()))
	page.Set(ProcessState, uint64(Draining))
	at := func(f Field) uint64 { return 1000 + uint64(f) }
	traffic := Traffic{
		Requests: at(Requests), BytesRead: at(BytesRead), BytesWritten: at(BytesWritten), Cut: at(Cut),
		Status:      [5]uint64{at(Status1xx), at(Status2xx), at(Status3xx), at(Status4xx), at(Status5xx)},
		HTTP2Resets: at(HTTP2Resets), HTTP2Calmed: at(HTTP2Calmed),
		HTTP3Resets: at(HTTP3Resets), HTTP3Calmed: at(HTTP3Calmed), HTTP3Retries: at(HTTP3Retries), HTTP3Refused: at(HTTP3Refused), HTTP3Lost: at(HTTP3Lost),
	}
	want := Process{
		PID: os.Getpid(), Slot: int(at(Slot)), Generation: at(Generation), State: Draining, StartedAt: time.Unix(0, int64(at(StartedAt))),
		Heartbeat: int64(at(Heartbeat)), Probe: at(Probe), Lag: time.Duration(at(Lag)), Accepted: at(Accepted), Done: at(Done),
		Active: at(Active), Idle: at(Idle), InFlight: at(InFlight), Oldest: int64(at(Oldest)),
		HTTP2Connections: at(HTTP2Connections), HTTP2Idle: at(HTTP2Idle), HTTP2Streams: at(HTTP2Streams), Traffic: traffic,
		HTTP3Connections: at(HTTP3Connections), HTTP3Idle: at(HTTP3Idle), HTTP3Streams: at(HTTP3Streams),
		ResidentBytes: at(ResidentBytes), Goroutines: at(Goroutines), GarbageCollections: at(GarbageCollections), CPUTime: time.Duration(at(CPUTime)),
	}
	if got, isFound := s.Process(os.Getpid()); got != want || !isFound {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	other := attachAgain(t, s, 101).Page()
	for f := range fieldEnd {
		if f.counts() {
			other.Set(f, 1)
		}
	}
	accepted, done, total := s.Total()
	traffic.Requests, traffic.BytesRead, traffic.BytesWritten, traffic.Cut = traffic.Requests+1, traffic.BytesRead+1, traffic.BytesWritten+1, traffic.Cut+1
	traffic.HTTP2Resets, traffic.HTTP2Calmed = traffic.HTTP2Resets+1, traffic.HTTP2Calmed+1
	for _, n := range []*uint64{&traffic.HTTP3Resets, &traffic.HTTP3Calmed, &traffic.HTTP3Retries, &traffic.HTTP3Refused, &traffic.HTTP3Lost} {
		*n++
	}
	for i := range traffic.Status {
		traffic.Status[i]++
	}
	if accepted != at(Accepted)+1 || done != at(Done)+1 || total != traffic {
		t.Errorf("%d, %d, %+v in total, want %+v", accepted, done, total, traffic)
	}
	s.Reap(os.Getpid())
	dead, _ := s.Process(os.Getpid())
	want.State, want.Active, want.Idle, want.InFlight, want.Oldest = Stopped, 0, 0, 0, 0
	want.HTTP2Connections, want.HTTP2Idle, want.HTTP2Streams = 0, 0, 0
	want.HTTP3Connections, want.HTTP3Idle, want.HTTP3Streams = 0, 0, 0
	if dead != want || page.Get(Inbound) != 0 {
		t.Errorf("after its death: %+v, want\n%+v; %d inbound", dead, want, page.Get(Inbound))
	}
}

// What a process held is free after its death, also when another one has its place.
func TestPlaceIsTakenAgain(t *testing.T) {
	s := newLocal(t)
	first := attachAgain(t, s, 101)
	lease := Must(first.Lease("job", 0))
	if !lease.TryAcquire() || !s.isAlive(first.token) {
		t.Fatal("the first process is not there")
	}
	s.Reap(101)
	second := attachAgain(t, s, 102)
	if second.lane != first.lane || s.isAlive(first.token) || !s.isAlive(second.token) {
		t.Errorf("lanes %d and %d: alive are %v and %v", first.lane, second.lane, s.isAlive(first.token), s.isAlive(second.token))
	}
	mine := Must(s.Lease("job", 0))
	if pid := mine.Holder(); pid != 0 {
		t.Errorf("process %d holds the lease", pid)
	}
	if lease.Held() || lease.Renew() {
		t.Error("a dead process holds the lease")
	}
	if lease.Release(); !mine.TryAcquire() {
		t.Error("the lease is not free")
	}
	if lease.Release(); !mine.Held() {
		t.Error("a dead process has released the lease of another one")
	}
	for _, token := range []uint64{0, uint64(s.layout.lanes+1) << tokenLaneBits, 1<<64 - 1} {
		if s.isAlive(token) {
			t.Errorf("token %#x is of a living process", token)
		}
	}
	for _, pid := range []int{0, -1} { // the id of free places
		epoch := s.laneWord(7, laneEpoch).Load()
		if s.Reap(pid); s.laneWord(7, laneEpoch).Load() != epoch {
			t.Errorf("process %d was reaped", pid)
		}
	}
}

// A snapshot that is used again has only the new values.
func TestSnapshotIsReplaced(t *testing.T) {
	s := newLocal(t)
	h := Must(s.Histogram("h"))
	var snapshot Snapshot
	h.Record(7)
	for range 2 {
		if h.Read(&snapshot); snapshot.Count() != 1 || snapshot.Sum() != 7 || snapshot.Quantile(1) != 7 {
			t.Errorf("%d values, sum %d", snapshot.Count(), snapshot.Sum())
		}
	}
	if empty := new(Snapshot); empty.Mean() != 0 || empty.Quantile(0.5) != 0 {
		t.Error("an empty snapshot has values")
	}
}

// The configuration that GetConfigForClient returns uses the keys, if it returns one.
func TestTicketsOfChosenConfig(t *testing.T) {
	keys := Must(newLocal(t).TicketKeys("tls"))
	bad := errors.New("bad")
	own := &tls.Config{MinVersion: tls.VersionTLS13}
	for _, c := range []struct {
		config *tls.Config
		err    error
	}{{nil, nil}, {nil, bad}, {own, bad}, {own, nil}} {
		server := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config, c.err }}
		if !keys.Install(server) {
			t.Fatal("not installed")
		}
		got, err := server.GetConfigForClient(nil)
		if err != c.err || (got == nil) != (c.config == nil) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if isReady := c.config != nil && c.err == nil; isReady && (got == own || got.WrapSession == nil || got.UnwrapSession == nil || got.MinVersion != tls.VersionTLS13 || own.WrapSession != nil) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	for name, config := range map[string]*tls.Config{
		"disabled": {SessionTicketsDisabled: true},
		"wraps":    {WrapSession: func(tls.ConnectionState, *tls.SessionState) ([]byte, error) { return nil, nil }},
		"unwraps":  {UnwrapSession: func([]byte, tls.ConnectionState) (*tls.SessionState, error) { return nil, nil }},
	} {
		if keys.Install(config) {
			t.Errorf("%s: installed", name)
		}
	}
}

// A change that is none leaves the configuration alone, and the lock free.
func TestNoChange(t *testing.T) {
	c := Must(newLocal(t).Config("c", 10))
	if err := c.Store([]byte("text")); err != nil {
		t.Fatal(err)
	}
	version := c.Version()
	if err := c.change(func() ([]byte, bool) { return []byte("other"), false }); err != nil || c.Version() != version {
		t.Errorf("%v, version %d", err, c.Version())
	}
	if err := c.Store(make([]byte, 11)); err != ErrTooLarge || c.Version() != version {
		t.Errorf("%v, version %d", err, c.Version())
	}
	if text, now := c.Load([]byte("> ")); string(text) != "> text" || now != version {
		t.Errorf("%q, version %d", text, now)
	}
	if err := c.Store(make([]byte, 10)); err != nil {
		t.Error(err)
	}
}

// The smallest cache has one set.
func TestSmallestCache(t *testing.T) {
	s := newLocal(t)
	c := Must(s.Cache("c", CacheOptions{Size: 1, MaxEntry: 1}))
	if c.sets != 1 || len(c.words) != linesFor(c.setWords) {
		t.Errorf("%d sets, %d words of %d", c.sets, len(c.words), c.setWords)
	}
	c = Must(s.Cache("d", CacheOptions{Size: int64(3 * c.setWords * wordBytes), MaxEntry: 1}))
	if c.sets != 3 {
		t.Errorf("%d sets, want 3", c.sets)
	}
}

// Values that programs compare, and what a segment without a file has.
func TestConstants(t *testing.T) {
	s := newLocal(t)
	if Never != -1 || s.lockWait != 250*time.Millisecond || Must(attachWords(s.words)).lockWait != s.lockWait || s.Processes() != 8 || s.File() != nil || s.IsShared() || s.Close() != nil {
		t.Errorf("%v, %v, %d processes, %v, %v", Never, s.lockWait, s.Processes(), s.File(), s.IsShared())
	}
	if size, free := s.Size(); size != 16<<20 || free <= 0 || free != size-int64(s.words[headerNext].Load())*wordBytes {
		t.Errorf("%d bytes, %d free", size, free)
	}
	if l, err := s.RateLimiter("l", RateLimit{Events: 10, Per: time.Second}); err != nil {
		t.Error(err)
	} else if ok, wait := l.AllowN([]byte("x"), 11); ok || wait != Never {
		t.Errorf("more than the burst: %v, %v", ok, wait)
	}
	name := strings.Repeat("x", MaxName)
	if _, err := s.Flag(name + "x"); !errors.Is(err, ErrName) {
		t.Errorf("a name that is too long: %v", err)
	}
	if _, err := s.Flag(""); !errors.Is(err, ErrName) {
		t.Errorf("no name: %v", err)
	}
	Must(s.Flag(name)).Set(true)
	if all := s.Entries(); len(all) != 2 || all[1] != (Entry{name, "Flag", lineBytes}) {
		t.Errorf("%+v", all)
	}
}

// The keys are rotated at each interval until the context ends.
func TestRotationEnds(t *testing.T) {
	keys := Must(newLocal(t).TicketKeys("tls"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := keys.Version()
	keys.RotateEvery(ctx, 0)
	if keys.Version() != before {
		t.Error("rotated after the end")
	}
}

// Exactly the counters go on from one process of a place to the next.
func TestCounters(t *testing.T) {
	counters := []Field{
		Accepted, Done, Cut, Requests, BytesRead, BytesWritten, Status1xx, Status2xx, Status3xx, Status4xx, Status5xx, HTTP2Resets, HTTP2Calmed,
		HTTP3Resets, HTTP3Calmed, HTTP3Retries, HTTP3Refused, HTTP3Lost,
	}
	for f := range fieldEnd {
		if got, want := f.counts(), slices.Contains(counters, f); got != want {
			t.Errorf("field %d counts: %v, want %v", f, got, want)
		}
	}
}
