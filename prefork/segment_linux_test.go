package prefork

import (
	"bufio"
	"crypto/tls"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
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
	f := start(t, setup{Workers: 4, TLSFiles: t.TempDir(), Linger: patience}, true)
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

// How many workers there may be, and what the supervisor gets of the segment.
func TestShare(t *testing.T) {
	room := shared.Default().Processes() - 2
	for _, c := range []struct {
		workers, most, want int // most: 0 without a limit, as the result after an error
	}{
		{1, 0, min(4*runtime.NumCPU(), room)}, {1, 3, 3}, {5, 3, 5}, {1, room + 1, room}, {room, 0, room}, {room, room + 1, room},
	} {
		config := supervise.Config{Workers: c.workers, MaxWorkers: c.most}
		s, err := share(&config, otherProcesses)
		if err != nil || s != shared.Default() || config.MaxWorkers != c.want || len(config.SharedFiles) != 1 || config.SharedFiles[0] != s.File() {
			t.Errorf("%+v: %d, %v, %v", c, config.MaxWorkers, config.SharedFiles, err)
		}
		page := s.Page()
		before := page.Get(shared.Accepted)
		page.Word(shared.Accepted).Add(3)
		if n, isFound := config.Progress(0, os.Getpid()); n != before+3 || !isFound {
			t.Errorf("progress %d, %v; want %d", n, isFound, before+3)
		}
		if _, isFound := config.Progress(0, 1<<30); isFound {
			t.Error("a process that is not attached makes progress")
		}
		config.OnReaped(0, 1<<30)
	}
	for workers, want := range map[int]int{1: 256, 127: 256, 128: 258, 200: 402, 1 << 20: shared.MaxProcesses} {
		if got := placesFor(workers, otherProcesses); got != want {
			t.Errorf("%d places for %d workers, want %d", got, workers, want)
		}
	}
	config := supervise.Config{Workers: room + 1}
	if _, err := share(&config, otherProcesses); err == nil || !strings.Contains(err.Error(), "workers need "+strconv.Itoa(room+3)+":") {
		t.Errorf("too many workers: %v", err)
	}
}

// A worker that uses another segment already goes on with the master's, and says so.
func TestLateSegment(t *testing.T) {
	before := shared.Default()
	defer shared.SetDefault(before)
	masters := shared.Must(shared.New(shared.Options{Processes: 4}))
	fd, err := unix.FcntlInt(masters.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "shared")
	log, l := &lines{}, newFakeLink()
	w := &worker{prefork: &Prefork{Logger: log}, link: l}
	if err := w.adoptSegment(); err != nil || w.hasSegment {
		t.Errorf("without a file: %v, %v", err, w.hasSegment)
	}
	l.memory = []*os.File{file}
	if err := w.adoptSegment(); err != nil || shared.Default().Processes() != 4 {
		t.Errorf("%v; room for %d processes", err, shared.Default().Processes())
	}
	if w.prefork.logger().Flush(); len(log.all) != 1 || !strings.Contains(log.all[0], shared.ErrLate.Error()) {
		t.Errorf("log %q", log.all)
	}
	if !errors.Is(file.Close(), os.ErrClosed) {
		t.Error("the file stays open")
	}
}

// Ticket keys go to a server of TLS, which keeps its other settings.
func TestTicketsAreInstalled(t *testing.T) {
	own := &tls.Config{MinVersion: tls.VersionTLS13}
	for _, c := range []struct {
		config *tls.Config
		isTLS  bool
	}{{nil, false}, {nil, true}, {own, true}} {
		s := &sluice.Server{TLSConfig: c.config}
		w := &worker{prefork: &Prefork{server: s}, link: newFakeLink(), isTLS: c.isTLS}
		w.shareTickets()
		if (s.TLSConfig != nil) != c.isTLS || c.isTLS && s.TLSConfig.WrapSession == nil && s.TLSConfig.GetConfigForClient == nil {
			t.Errorf("%+v: %+v", c, s.TLSConfig)
		}
		if c.config != nil && (s.TLSConfig == own || s.TLSConfig.MinVersion != tls.VersionTLS13) {
			t.Errorf("the program's configuration: %+v", s.TLSConfig)
		}
	}
	(&worker{prefork: &Prefork{}, isTLS: true}).shareTickets() // without a server
}
