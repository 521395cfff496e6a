package prefork

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/sse"
)

// The defaults of settings that depend on each other fit: docs/guide/deployment.md lists them.
func TestDefaultsFitEachOther(t *testing.T) {
	p := New(&sluice.Server{})
	grace, drain, linger, boot := p.grace(), p.drainTimeout(), p.idleLinger(), inSource(t, "internal/process/supervise/config.go", "c.BootTimeout, ")
	ping, heartbeat := inSource(t, "websocket/endpoint.go", "defaultPingAfter"), inSource(t, "sse/hub.go", "o.Heartbeat, ")
	const (
		systemd, kubernetes = 90 * time.Second, 30 * time.Second
		nginx               = time.Minute
	)
	for _, pair := range []struct {
		name        string
		least, most time.Duration // or bytes
	}{
		{"twice IdleLinger and the goodbye, DrainTimeout", 2*linger + farewell, drain},
		{"ShutdownGracePeriod, DrainTimeout", grace, drain},
		{"SSE's RestartSpread, IdleLinger", inSource(t, "sse/hub.go", "o.RestartSpread, "), linger},
		{"WebSocket's RestartSpread, IdleLinger", inSource(t, "websocket/endpoint.go", "defaultRestartSpread"), linger},
		{"the hand-over's answers, IdleLinger", keepPatience, linger},
		{"the goodbye, ShutdownGracePeriod", farewell, grace},
		{"the queues' end, the inbox' end and the last linger, ShutdownGracePeriod", queuePatience + inboundPatience + stopLinger + farewell, grace},
		{"the history of other workers, BootTimeout", inSource(t, "internal/process/recall/recall.go", "\tpatience "), boot - 1},
		{"ShutdownGracePeriod and 2 s, TimeoutStopSec", grace + 2*time.Second, systemd},
		{"ShutdownGracePeriod and 2 s, terminationGracePeriodSeconds", grace + 2*time.Second, kubernetes},
		{"the client's idle time-out, that of the list", sluice.DefaultMaxIdleConnDuration, nginx},
		{"PingAfter and a fifth, a proxy's time-out", ping + ping/5, nginx - 1},
		{"Heartbeat, a proxy's time-out", heartbeat, nginx - 1},
		{"a frame that ReadLimit allows, MaxPending", inSource(t, "websocket/endpoint.go", "defaultReadLimit"), inSource(t, "websocket/endpoint.go", "defaultMaxPending")},
		{"an event, HistoryBytes of a Hub", sse.MaxEvent, inSource(t, "sse/hub.go", "o.HistoryBytes, ")},
		{"a message, HistoryBytes of a room", backplane.MaxData, inSource(t, "websocket/room/hub.go", "o.HistoryBytes, ")},
	} {
		if pair.least <= 0 || pair.least > pair.most {
			t.Errorf("%s: %d > %d", pair.name, pair.least, pair.most)
		}
	}
}

// However one of them is set, the time of a worker that is replaced has room for its phases.
func TestDrainTimeoutFitsWhatIsSet(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Second, 5 * time.Second, time.Minute, time.Hour} {
		for _, p := range []*Prefork{{IdleLinger: d}, {ShutdownGracePeriod: d}, {IdleLinger: d, ShutdownGracePeriod: d}} {
			if drain := p.drainTimeout(); drain < 2*p.idleLinger()+farewell || drain < p.grace() {
				t.Errorf("IdleLinger %v, ShutdownGracePeriod %v: DrainTimeout %v", p.IdleLinger, p.ShutdownGracePeriod, drain)
			}
		}
	}
}

// inSource returns the number that follows a text in a file of the module: other packages do
// not export their defaults. It is a Duration, or bytes.
func inSource(t *testing.T, file, text string) time.Duration {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(regexp.QuoteMeta(text) + `[ =]*(?:(\d+) ?\* ?)?(time\.Second|(?:(\d+) ?<< ?(\d+)))`).FindSubmatch(source)
	if found == nil {
		t.Fatalf("%s has no default of %q", file, text)
	}
	number := func(text []byte, otherwise int) time.Duration {
		if n, err := strconv.Atoi(string(text)); err == nil {
			return time.Duration(n)
		}
		return time.Duration(otherwise)
	}
	if string(found[2]) == "time.Second" {
		return number(found[1], 1) * time.Second
	}
	return number(found[3], 1) << number(found[4], 0)
}
