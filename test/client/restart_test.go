package client_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

const (
	// restartEnv names the variable with the time that TestClientRestarts takes.
	restartEnv = "SLUICE_RESTART"
	// upstreamEnv has the test be the upstream, at the address that it holds.
	upstreamEnv = "SLUICE_TEST_UPSTREAM"
)

// TestClientRestarts kills and restarts the upstream under 64 concurrent
// clients: idempotent requests fail only while no upstream listens, and nothing
// leaks. The test is its own upstream. It takes some seconds; SLUICE_RESTART=20s
// is the full one, of each kind.
func TestClientRestarts(t *testing.T) {
	if addr := os.Getenv(upstreamEnv); addr != "" {
		beUpstream(addr)
		return
	}
	duration := restartDuration(t)
	t.Run("a connection each", func(t *testing.T) { underRestarts(t, &sluice.Client{}, duration) })
	t.Run("16 connections", func(t *testing.T) {
		var open atomic.Int64
		underRestarts(t, &sluice.Client{MaxConnsPerHost: 16, MaxConnWaitTimeout: harness.Patience, DialTimeout: countOpen(&open)}, duration)
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections were not closed", n)
		}
	})
}

// countOpen returns a dialer that counts the connections that are open. The
// descriptors do not tell: the garbage collector closes those that are lost.
func countOpen(open *atomic.Int64) sluice.DialFuncWithTimeout {
	return func(addr string, timeout time.Duration) (net.Conn, error) {
		c, err := sluice.DialTimeout(addr, timeout)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &countedConn{Conn: c, closed: sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
}

// A countedConn counts that it is closed, once.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// NetConn lets the client look at the socket.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

// underRestarts uses client for a while.
func underRestarts(t *testing.T, client *sluice.Client, duration time.Duration) {
	before := takeStock()
	load := newLoad(t, client, harness.FreeAddr(t))
	var windows []window
	for end := time.Now().Add(duration); time.Now().Before(end) || len(windows) < 2; {
		load.upstream = startUpstream(t, load.addr)
		if n := len(windows); n > 0 {
			windows[n-1].until = time.Now()
		}
		load.start() // if it does not run yet
		load.awaitAnswers()
		windows = append(windows, window{from: time.Now()})
		load.upstream.kill()
		load.awaitErrors()
	}
	windows[len(windows)-1].until = time.Now().Add(time.Hour) // it stays down
	load.stop()
	for _, f := range load.failures {
		if !f.isWithin(windows) {
			t.Errorf("failed while the upstream listened: %v", f)
		}
	}
	t.Logf("killed %d times; %d answers, %d errors while nothing listened: %v",
		len(windows), load.answers.Load(), len(load.failures), load.kinds())
	client.CloseIdleConnections()
	if n := client.ConnsCount(); n != 0 {
		t.Errorf("%d connections are counted", n)
	}
	before.expectAgain(t)
}

// kinds counts the failures by their errors.
func (l *load) kinds() map[string]int {
	kinds := map[string]int{}
	for _, f := range l.failures {
		kinds[f.err.Error()]++
	}
	return kinds
}

// restartDuration returns how long each client is used.
func restartDuration(t *testing.T) time.Duration {
	text := os.Getenv(restartEnv)
	switch {
	case text == "" && testing.Short():
		return 500 * time.Millisecond
	case text == "":
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", restartEnv, err)
	}
	return d
}

// window is a time in which nothing may have listened: from before the upstream
// was killed until the next one said that it listens.
type window struct{ from, until time.Time }

// A failure is a request that ended with an error.
type failure struct {
	what       string
	begin, end time.Time
	err        error
}

func (f failure) String() string {
	return fmt.Sprintf("%s, begun at %s, ended at %s: %v", f.what, f.begin.Format("05.000"), f.end.Format("05.000"), f.err)
}

// isWithin reports whether the request was under way in one of the windows. No
// other may fail: it found an upstream whenever it looked for one.
func (f failure) isWithin(windows []window) bool {
	for _, w := range windows {
		if f.begin.Before(w.until) && f.end.After(w.from) {
			return true
		}
	}
	return false
}

// beUpstream serves on addr until the process is killed, or the one that
// started it is gone.
func beUpstream(addr string) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println("cannot listen:", err)
		os.Exit(1)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.SetBytesV("X-Path", ctx.Path())
		switch {
		case ctx.IsPut():
			fmt.Fprint(ctx, len(ctx.PostBody()))
		case bytes.HasSuffix(ctx.Path(), []byte("/big")):
			ctx.Write(make([]byte, bigAnswer))
		default:
			ctx.Write(ctx.Path())
		}
	}}
	go s.Serve(ln)
	fmt.Println(upstreamReady)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

const (
	upstreamReady = "upstream listens"
	bigAnswer     = 300 << 10
	bigRequest    = 200 << 10
)

// An upstreamProcess is an upstream that can be killed.
type upstreamProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.ReadCloser
}

// startUpstream starts an upstream, and returns when it listens.
func startUpstream(t *testing.T, addr string) *upstreamProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestClientRestarts$")
	cmd.Env = append(os.Environ(), upstreamEnv+"="+addr)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &upstreamProcess{cmd: cmd, stdin: stdin, stdout: stdout}
	t.Cleanup(u.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if strings.TrimSpace(line) != upstreamReady {
		t.Fatalf("the upstream says %q (%v)", line, err)
	}
	return u
}

// kill ends the process without giving it a chance. It may be called again.
func (u *upstreamProcess) kill() {
	if u.cmd.ProcessState != nil {
		return
	}
	_ = u.cmd.Process.Kill() // it may have ended
	_ = u.cmd.Wait()         // by that signal
}

// clientsOfLoad is how many send requests at the same time.
const clientsOfLoad = 64

// A load is what the clients do.
type load struct {
	t        *testing.T
	client   *sluice.Client
	addr     string
	upstream *upstreamProcess
	begin    sync.Once
	stopping chan struct{}
	running  sync.WaitGroup
	answers  atomic.Int64
	each     [clientsOfLoad]atomic.Int64 // answers

	mu       sync.Mutex
	failures []failure
}

func newLoad(t *testing.T, client *sluice.Client, addr string) *load {
	return &load{t: t, client: client, addr: addr, stopping: make(chan struct{})}
}

// start begins with the requests; it may be called again.
func (l *load) start() {
	l.begin.Do(func() {
		for i := range clientsOfLoad {
			l.running.Go(func() { l.run(i) })
		}
	})
}

func (l *load) stop() {
	close(l.stopping)
	l.running.Wait()
}

// run sends requests of all kinds until the load stops.
func (l *load) run(i int) {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	body := make([]byte, bigRequest)
	for n := i; ; n++ {
		select {
		case <-l.stopping:
			return
		default:
		}
		f := failure{begin: time.Now()}
		f.what, f.err = l.ask(req, resp, n, fmt.Sprintf("/%d/%d", i, n), body)
		if f.end = time.Now(); f.err == nil {
			l.answers.Add(1)
			l.each[i].Add(1)
			continue
		}
		l.mu.Lock()
		l.failures = append(l.failures, f)
		l.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // as clients do
	}
}

// ask sends the request of a turn and checks that the answer is its own.
func (l *load) ask(req *sluice.Request, resp *sluice.Response, turn int, path string, body []byte) (what string, err error) {
	req.Reset()
	want := path
	switch turn % 8 {
	case 0:
		path += "/big"
		want = string(make([]byte, bigAnswer))
		resp.StreamBody = turn%16 == 0
	case 1:
		req.Header.SetMethod("PUT")
		req.SetBodyRaw(body)
		want = fmt.Sprint(len(body))
	case 2:
		req.Header.SetMethod("PUT")
		req.SetBodyRaw(body[:10])
		want = "10"
	}
	req.SetRequestURI("http://" + l.addr + path)
	what = fmt.Sprintf("%s %s", req.Header.Method(), path)
	if err := l.client.DoTimeout(req, resp, harness.Patience); err != nil {
		return what, err
	}
	got, err := bodyOf(resp)
	resp.StreamBody = false
	if err == nil && (string(resp.Header.Peek("X-Path")) != path || got != want) {
		l.t.Errorf("%s: the answer is that to %s, %.20q", what, resp.Header.Peek("X-Path"), got)
	}
	return what, err
}

// awaitAnswers waits until each client has got some answers more.
func (l *load) awaitAnswers() {
	l.t.Helper()
	some := int64(20)
	if testing.Short() {
		some = 4
	}
	var goal [clientsOfLoad]int64
	for i := range goal {
		goal[i] = l.each[i].Load() + some
	}
	harness.Eventually(l.t, "every client is served again", func() bool {
		for i := range goal {
			if l.each[i].Load() < goal[i] {
				return false
			}
		}
		return true
	})
}

// awaitErrors waits until there are more errors than clients can have had under
// way when the upstream was killed.
func (l *load) awaitErrors() {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.failures)
	}
	goal := count() + clientsOfLoad
	harness.Eventually(l.t, "requests fail", func() bool { return count() > goal })
}

// A stock is what a process holds.
type stock struct {
	goroutines, files int
	memory            uint64
}

// takeStock counts. Pools are emptied.
func takeStock() stock {
	var s stock
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.memory, s.goroutines = m.HeapAlloc, runtime.NumGoroutine()
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.files = len(open)
	} else if !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	return s
}

// expectAgain waits until the process holds no more than it did at s.
func (s stock) expectAgain(t *testing.T) {
	t.Helper()
	const slack = 1 << 20 // of memory: what the runtime keeps for itself
	var now stock
	for end := time.Now().Add(harness.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		now = takeStock()
		if now.goroutines <= s.goroutines && now.files <= s.files && now.memory <= s.memory+slack {
			t.Logf("goroutines, files, memory: %v, at the beginning %v", now, s)
			return
		}
	}
	t.Errorf("goroutines, files, memory: %v, at the beginning %v\n%s", now, s, strings.Join(stacks(), "\n\n"))
}
