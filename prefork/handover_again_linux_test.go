package prefork

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// What a worker has handed over waits for the next worker if the successor dies, also when the
// old worker gets a SIGTERM meanwhile: it does not take its connections back and close them.
func TestHandedOverToNextSuccessor(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			f := start(t, setup{Workers: 1, Engine: engine, Threshold: 9, Linger: patience, Drain: patience, BootGate: gate}, true)
			busy, keeper := f.dial(), f.dial()
			for _, c := range []*client{busy, keeper} {
				c.send("POST /echo?n=7 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nfirst")
			}
			until(t, "both are accepted", func() bool { return connections(t, f.pids()) == 2 })
			f.signal(syscall.SIGHUP)
			open(t, gate)
			until(t, "the successor is ready", func() bool { return f.count("ready after") == 2 })
			old, successor := f.pids()[0], f.pids()[1]
			if err := os.Remove(gate); err != nil { // the next one boots until the end
				t.Fatal(err)
			}
			nettest.Signal(t, successor, syscall.SIGKILL)
			until(t, "the next one boots", func() bool { return len(f.pids()) == 3 })
			keeper.send("-last")
			if body := keeper.answer(); body != "7:first-last" {
				t.Errorf("%q", body)
			}
			until(t, "it is handed over", func() bool { return connections(t, f.pids()[:1]) == 1 })
			nettest.Signal(t, old, syscall.SIGTERM)
			keeper.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			busy.send("-last")
			if body := busy.answer(); body != "7:first-last" {
				t.Errorf("%q", body)
			}
			until(t, "the old worker ends", func() bool { return !isAlive(old) })
			open(t, gate)
			for _, c := range []*client{keeper, busy} {
				if c == busy {
					c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				}
				if got := c.answer(); !strings.HasSuffix(got, " 0 3 true") {
					t.Errorf("%q is not of the next worker", got)
				}
			}
		})
	}
}
