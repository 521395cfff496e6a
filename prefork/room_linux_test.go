package prefork

import (
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// Connections for which a successor has no descriptor stay with the old worker, which serves
// them until its time is over.
func TestRestartWithoutDescriptors(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, Descriptors: 48, Linger: 2 * patience, Drain: 4 * patience}, true)
			idle := f.idlers(96)
			f.signal(syscall.SIGHUP)
			until(t, "both are replaced", func() bool { return f.count("rolling restart is done") > 0 })
			time.Sleep(100 * time.Millisecond) // the hand-over goes on meanwhile
			for i, c := range idle {
				if body := c.get("/"); body == "" {
					t.Errorf("connection %d: %q", i, body)
				}
			}
		})
	}
}
