package prefork

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

const (
	slowName = "prefork.slow." // and the slot
	// slowKept is how many slow requests a worker keeps, for slowFor.
	slowKept = 4
	slowFor  = 10 * time.Minute
	// slowFloor is what a request must take at least.
	slowFloor = 10 * time.Millisecond
	// slowPath bounds a path, and slowRoom the requests of a slot as JSON.
	slowPath   = 120
	slowMethod = 16
	slowRoom   = 1280
)

// A SlowRequest is a request that took long, measured as Meter.Latency of package sluice does.
type SlowRequest struct {
	// PID is the process that has answered it.
	PID int `json:"pid"`
	// Began is when it arrived.
	Began time.Time `json:"began"`
	// Took is the time until the response was ready.
	Took time.Duration `json:"took_ns"`
	// Status is that of the response.
	Status int `json:"status"`
	// Method and Path are those of the request; of the path at most 120 bytes, without the
	// query, which may be secret. Instead of what is not printable ASCII, there is a
	// question mark.
	Method string `json:"method"`
	Path   string `json:"path"`
}

// A slowList keeps the slowest requests of a process. The zero value is ready.
type slowList struct {
	floor atomic.Int64 // what a request must exceed, in nanoseconds; 0: slowFloor

	mu         sync.Mutex
	list       []SlowRequest // the slowest first
	hasChanged bool          // since publish
}

// record keeps a request if it is among the slowest.
func (l *slowList) record(ctx *sluice.RequestCtx, took time.Duration) {
	if took < slowFloor || int64(took) <= l.floor.Load() {
		return
	}
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	r := SlowRequest{
		PID: os.Getpid(), Began: time.Now().Add(-took), Took: took, Status: ctx.Response.StatusCode(),
		Method: printable(string(ctx.Method()), slowMethod), Path: printable(path, slowPath),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
	l.settleLocked()
}

// settleLocked orders the list, and drops what is too much.
func (l *slowList) settleLocked() {
	slices.SortStableFunc(l.list, func(a, b SlowRequest) int { return cmp.Compare(b.Took, a.Took) })
	l.list = l.list[:min(len(l.list), slowKept)]
	floor := int64(0)
	if len(l.list) == slowKept {
		floor = int64(l.list[slowKept-1].Took)
	}
	l.floor.Store(floor)
	l.hasChanged = true
}

// publish writes the list to the segment if it has changed.
func (l *slowList) publish(s *shared.Segment, slot int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.list)
	l.list = recent(l.list, now)
	if len(l.list) != before {
		l.settleLocked()
	}
	if !l.hasChanged {
		return
	}
	l.hasChanged = false
	text, err := json.Marshal(l.list)
	if place, e := slowPlace(s, slot); err == nil && e == nil {
		_ = place.Store(text) // it fits: a test shows that
	} // without room there never will be any, and the list is shown nowhere
}

// recent returns list without what ended too long ago.
func recent(list []SlowRequest, now time.Time) []SlowRequest {
	return slices.DeleteFunc(list, func(r SlowRequest) bool { return now.Sub(r.Began)-r.Took > slowFor })
}

func slowPlace(s *shared.Segment, slot int) (*shared.Config, error) {
	return s.Config(slowName+strconv.Itoa(slot), slowRoom)
}

// slowRequests returns what the workers of so many slots have published. One that has ended may
// have published requests that are too old by now.
func slowRequests(s *shared.Segment, slots int, now time.Time) []SlowRequest {
	all := []SlowRequest{} // in JSON [], never null
	for slot := range slots {
		place, err := slowPlace(s, slot)
		if err != nil {
			break // there is no room for more
		}
		var list []SlowRequest
		if text, _ := place.Load(nil); json.Unmarshal(text, &list) == nil {
			all = append(all, recent(list, now)...)
		}
	}
	slices.SortStableFunc(all, func(a, b SlowRequest) int { return cmp.Compare(b.Took, a.Took) })
	return all
}

// printable returns at most so many bytes of text, with question marks for what JSON would
// write at length.
func printable(text string, most int) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("\"\\<>&", r) {
			return '?'
		}
		return r
	}, text[:min(len(text), most)])
}
