//go:build linux && (amd64 || arm64)

package core

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// openFile makes a file of n bytes.
func openFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(i*7 + i>>8)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, content
}

// A counter counts how often it is closed.
type counter struct{ atomic.Int64 }

func (c *counter) Close() error {
	c.Add(1)
	return nil
}

// sends is a script whose runs answer with the file.
func sends(f engine.File) *script {
	return &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		c.Discard(len(c.Buffered()))
		c.SendFile(f)
		return append(out, "head:"...), engine.Read
	}}
}

// A download that nobody reads is a conn and its protocol: no goroutine and no
// buffer waits for it.
func TestStalledDownloads(t *testing.T) {
	const downloads, size = 200, 12_000_000
	f, content := openFile(t, size)
	var done counter
	ln := listen(t)
	d := serveOn(t, ln, sends(engine.File{Source: f, Size: size, Done: &done}), engine.Options{MaxIdleWorkerTime: 20 * time.Millisecond})
	before := runtime.NumGoroutine()
	fds := make([]int, downloads)
	for i := range fds {
		fds[i] = rawClient(t, ln.Addr(), i)
		if _, err := syscall.Write(fds[i], []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var all engine.LoopStats
	eventually(t, "all wait", func() bool {
		all = engine.LoopStats{}
		blocked := 0
		for _, l := range d.Loops() {
			all.Active += l.Active
			all.Queued += l.Queued
			all.Workers += l.Workers
			all.IdleWorkers += l.IdleWorkers
			all.Buffers += l.Buffers
		}
		d.table.each(func(_ int, p place) {
			if word := p.slot().word.Load(); word&flagBlocked != 0 && word&stateMask == stateIdle {
				blocked++
			}
		})
		// What it took to begin so many at once is let go. A worker's goroutine ends
		// a little later than it is counted out.
		return blocked == downloads && all.IdleWorkers == all.Workers && all.Workers <= 2*runtime.GOMAXPROCS(0)*len(d.loops) &&
			runtime.NumGoroutine()-before <= all.Workers+20
	})
	if all.Active != downloads || all.Queued != 0 || all.Buffers != 0 {
		t.Errorf("stalled downloads hold %+v", all)
	}
	got := make([]byte, len("head:")+size)
	for n := 0; n < len(got); {
		m, err := syscall.Read(fds[7], got[n:])
		if m <= 0 || err != nil {
			t.Fatalf("%d bytes, then %v", n, err)
		}
		n += m
	}
	if !bytes.Equal(got[len("head:"):], content) {
		t.Error("the file is damaged")
	}
	eventually(t, "one is done", func() bool { return done.Load() == 1 })
	for i := range fds {
		_ = syscall.Close(fds[i])
	}
	eventually(t, "all are done", func() bool { return done.Load() == downloads })
}

// A download that never blocks lets others have a turn, though there is one
// worker.
func TestDownloadGivesTurns(t *testing.T) {
	const size = 16 << 20
	f, _ := openFile(t, size)
	ln := listen(t)
	isRunning, isQueued, at, isOver := make(chan struct{}), make(chan struct{}), make(chan int64, 1), make(chan struct{})
	var first *conn
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		c.Discard(len(c.Buffered()))
		if first == nil {
			first = c
			close(isRunning)
			<-isQueued
			c.SendFile(engine.File{Source: f, Size: size})
			return out, engine.Read
		}
		at <- first.file.Offset // the one worker is here
		return append(out, 'y'), engine.Read
	}}
	d := serveOn(t, ln, a, engine.Options{MaxWorkers: 1})
	if len(d.loops) != 1 {
		t.Skip("there is more than one worker")
	}
	c := dial(t, ln)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	go func() { // takes all it can get
		defer close(isOver)
		_, _ = io.CopyN(io.Discard, c, size)
	}()
	<-isRunning
	other := dial(t, ln)
	if _, err := other.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second is queued", func() bool { return sumOf(d).Queued == 1 })
	close(isQueued)
	expect(t, other, "y")
	if n := <-at; n > bytesInARow+512<<10 {
		t.Errorf("the other had its turn after %d bytes", n)
	} else {
		t.Logf("the other had its turn after %d bytes", n)
	}
	<-isOver
}

func sumOf(d *driver) (all engine.LoopStats) {
	for _, l := range d.Loops() {
		all.Active += l.Active
		all.Queued += l.Queued
	}
	return all
}
