package prefork

import (
	"bufio"
	"crypto/tls"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Workers count together, including those that have ended.
func TestSharedCounter(t *testing.T) {
	f := start(t, setup{Workers: 3, Threshold: 9, Window: time.Minute, Linger: 10 * time.Millisecond}, true)
	for i := 1; i <= 40; i++ {
		if i == 20 {
			f.restart()
		}
		if i == 30 {
			f.get("/crash")
		}
		if body, err := f.get("/count"); body != strconv.Itoa(i) || err != nil {
			t.Fatalf("request %d: %q, %v", i, body, err)
		}
	}
}

// The segment has room for all wanted workers, also while each has a successor.
func TestManyWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts more than a hundred processes")
	}
	const workers = 66
	f := start(t, setup{Workers: workers, Linger: 10 * time.Millisecond, Hang: time.Hour}, true)
	if body, err := f.get("/count"); body != "1" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	until(t, "all of them are in the status", func() bool {
		s := statusAt(t, "tcp", f.addr(0))
		return s.Ready && len(s.Workers) == workers
	})
}

// The program's own segment bounds the number of workers: with an error before any
// worker starts, and without one for MaxWorkers.
func TestSmallSegment(t *testing.T) {
	f := start(t, setup{Workers: 3, Processes: 4}, false)
	if status := f.wait(); status != 1 || len(f.pids()) != 0 || f.count("room for 4 processes, and 3 workers need 5") != 1 {
		t.Errorf("exit status %d, %d workers were started", status, len(f.pids()))
	}
	f = start(t, setup{Workers: 2, Processes: 5}, true)
	until(t, "the bound is reached", func() bool {
		f.signal(syscall.SIGTTIN) // signals that come at once are one
		return f.count("4 workers are out of bounds, so 3") > 0
	})
	until(t, "three workers serve", func() bool {
		s := statusAt(t, "tcp", f.addr(0))
		return s.Wanted == 3 && s.Ready
	})
	f.restart() // one after the other: there is room for one successor
	if n := f.count("died"); n > 0 {
		t.Errorf("%d workers died", n)
	}
}

// A returning client resumes its session with every worker, also after they were
// replaced (I19).
func TestTicketsAreShared(t *testing.T) {
	// Between its handshake and its request a connection is idle.
	f := start(t, setup{Workers: 4, TLS: true, Linger: patience}, true)
	config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "localhost"}
	const connections = 60
	resumed := 0
	for i := range connections {
		if i == connections/2 {
			f.signal(syscall.SIGHUP)
		}
		c, err := tls.Dial("tcp", f.addr(0), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ask(c, bufio.NewReader(c), "/"); err != nil { // the ticket arrives with the response
			t.Fatal(err)
		}
		if c.ConnectionState().DidResume {
			resumed++
		}
		c.Close()
	}
	if resumed < connections-1 {
		t.Errorf("%d of %d sessions were resumed", resumed, connections)
	}
}
