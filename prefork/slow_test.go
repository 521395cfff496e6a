package prefork

import (
	"encoding/json"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// slowContext returns the context of a request.
func slowContext(method, uri string) *sluice.RequestCtx {
	var ctx sluice.RequestCtx
	var req sluice.Request
	req.Header.SetMethod(method)
	req.SetRequestURI(uri)
	ctx.Init(&req, &net.TCPAddr{}, nil)
	return &ctx
}

// The slowest requests are kept for a while, without their queries, and all processes see them.
func TestSlowRequests(t *testing.T) {
	segment := shared.Must(shared.New(shared.Options{Processes: 4, Size: 1 << 20}))
	var l, other slowList
	l.record(slowContext("GET", "/quick"), slowFloor-1)
	for i := range 10 {
		l.record(slowContext("POST", "/path?secret=1"), time.Duration(20+i)*time.Millisecond)
	}
	other.record(slowContext("GET", "/slower"), 2*slowFor)
	now := time.Now()
	l.publish(segment, 0, now)
	other.publish(segment, 1, now)
	got := slowRequests(segment, 2, now)
	if len(got) != slowKept+1 || got[0].Path != "/slower" || got[0].Took != 2*slowFor || now.Sub(got[0].Began) < 2*slowFor {
		t.Fatalf("%+v", got)
	}
	for i, r := range got[1:] {
		if want := time.Duration(29-i) * time.Millisecond; r.Took != want || r.Path != "/path" || r.Method != "POST" || r.Status != 200 {
			t.Errorf("%+v, want %v", r, want)
		}
	}
	if l.floor.Load() != int64(26*time.Millisecond) {
		t.Errorf("floor %d", l.floor.Load())
	}
	if got := slowRequests(segment, 2, now.Add(slowFor+time.Second)); len(got) != 0 { // of workers that have ended
		t.Errorf("too old: %+v", got)
	}
	l.publish(segment, 0, now.Add(2*slowFor))
	if got := slowRequests(segment, 2, now); len(got) != 1 || l.floor.Load() != 0 {
		t.Errorf("after a while: %+v", got)
	}
	full := shared.Must(shared.New(shared.Options{Processes: 1, Size: 64 << 10}))
	l.record(slowContext("GET", "/"), time.Second)
	for i := range 1000 {
		_, _ = full.Config("x"+strconv.Itoa(i), 64)
	}
	l.publish(full, 100, now)
	if got := slowRequests(full, 1000, now); got == nil || len(got) != 0 {
		t.Errorf("without room: %v", got)
	}
	if l.hasChanged {
		t.Error("without room: it tries again and again")
	}
}

// The longest and oddest requests fit into the room of a slot.
func TestSlowRequestsFit(t *testing.T) {
	var list []SlowRequest
	for range slowKept {
		odd := "/" + strings.Repeat("<\x01\xff\"\\日", slowPath)
		list = append(list, SlowRequest{
			PID: 1 << 22, Began: time.Unix(1<<33, 123456789).UTC(), Took: math.MaxInt64, Status: 999,
			Method: printable(odd, slowMethod), Path: printable(odd, slowPath),
		})
		if p := list[0].Path; p[:6] != "/?????" || len(p) > slowPath {
			t.Errorf("%q", p)
		}
	}
	if text, err := json.Marshal(list); err != nil || len(text) > slowRoom {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// A request that is not slow costs no allocation.
func TestQuickRequestsCostNothing(t *testing.T) {
	var l slowList
	ctx := slowContext("GET", "/")
	if n := testing.AllocsPerRun(100, func() { l.record(ctx, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
