package prefork

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Connections that are open at a worker's deadline are reported as cut, all of them,
// once. They do not count as lost by a crash.
func TestCutConnectionsAreCounted(t *testing.T) {
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Drain, s.Admin = 1, 300*time.Millisecond, "127.0.0.1:0"
		for try := 1; !countsCut(t, s); try++ {
			if try == 5 {
				t.Fatal("no worker has reported in time")
			}
		}
	})
}

// countsCut is one try. It returns false if the worker was late by more than the master waits
// for a report, as one on a busy machine may be: it was killed then.
func countsCut(t *testing.T, s setup) bool {
	t.Helper()
	const stuck, reading, hijacked = 100, 60, 20
	f := start(t, s, true)
	worker := f.pids()
	for range stuck {
		f.dial().send("GET /gate?file=/none HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for range reading { // these close when they are told to
		c := f.dial()
		c.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
		if line, err := c.r.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%q, %v", line, err) // until the worker reads the body
		}
		c.send("half")
	}
	for range hijacked {
		f.dial().get("/hijack") // the response is sent before the hijack
	}
	until(t, "all are accepted", func() bool { return connections(t, worker) == stuck+reading+hijacked })
	if !s.OwnServe {
		until(t, "all are in hand", func() bool { return statusAt(t, "tcp", f.admin()).Total.InFlight >= stuck })
	}
	f.signal(syscall.SIGHUP)
	until(t, "the worker has ended", func() bool { return !isAlive(worker[0]) })
	until(t, "the restart is done", func() bool { return f.count("rolling restart is done") == 1 })
	until(t, "the end of the drain is logged", func() bool { return f.count("drained: ")+f.count("did not end in time: killed") > 0 })
	drained := f.said("drained: ")
	if len(drained) == 0 {
		return false
	}
	if want := fmt.Sprintf(`"Cut":%d}`, stuck+reading+hijacked); !strings.HasSuffix(drained[0], want) {
		t.Errorf("%q, want %s", drained, want)
	}
	if total := statusAt(t, "tcp", f.admin()).Total; !s.OwnServe &&
		(total.Accepted != total.Done+total.Active || total.Cut != stuck+reading) {
		t.Errorf("%d accepted, %d done (%d cut), %d active", total.Accepted, total.Done, total.Cut, total.Active)
	}
	return true
}
