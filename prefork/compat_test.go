package prefork

import (
	"errors"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// quiet logs nothing.
func quiet() Logger { return log.New(io.Discard, "", 0) }

// dummy is a CommandProducer that starts a program which ends at once.
func dummy([]*os.File) (*exec.Cmd, error) {
	c := exec.Command(os.Args[0], "-test.run", "^$")
	return c, c.Start()
}

func TestNew(t *testing.T) {
	logger := log.New(io.Discard, "", 0)
	s := &sluice.Server{Logger: logger}
	p := New(s)
	if p.ServeFunc == nil || p.ServeTLSFunc == nil || p.ServeTLSEmbedFunc == nil {
		t.Error("a Serve function is missing")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for cpus, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 9: 4} {
		runtime.GOMAXPROCS(cpus)
		if got := New(s).RecoverThreshold; got != want {
			t.Errorf("%d CPUs: RecoverThreshold %d, want %d", cpus, got, want)
		}
	}
	if p.RecoverWindow != time.Minute || p.RecoverInterval != 100*time.Millisecond || p.HangTimeout != 30*time.Second {
		t.Errorf("RecoverWindow %v, RecoverInterval %v, HangTimeout %v", p.RecoverWindow, p.RecoverInterval, p.HangTimeout)
	}
	if p.Logger != Logger(logger) || p.network() != "tcp4" || p.Reuseport {
		t.Errorf("Logger %v, network %q, Reuseport %v", p.Logger, p.network(), p.Reuseport)
	}
	if New(&sluice.Server{}).logTo() != Logger(log.Default()) || p.logTo() != Logger(logger) {
		t.Error("without a Logger it is not the standard one")
	}
}

// BootTimeout is passed to the supervisor, which has the default.
func TestBootTimeout(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 0, -time.Second: 0, time.Minute: time.Minute} {
		p := &Prefork{Logger: quiet(), BootTimeout: given}
		if got := p.config().BootTimeout; got != want {
			t.Errorf("%v is %v, want %v", given, got, want)
		}
	}
}

func TestIsChild(t *testing.T) {
	if IsChild() {
		t.Error("the test is a child")
	}
	for value, want := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv(markerVariable, value)
		if IsChild() != want {
			t.Errorf("with %q IsChild is %v", value, !want)
		}
	}
}

// A worker has one thread for Go code unless GOMAXPROCS says otherwise. A negative value
// leaves it alone.
func TestLimitCPUs(t *testing.T) {
	const before = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(before))
	for set, want := range map[int]int{0: 1, 1: 1, 2: 2, -1: before} {
		runtime.GOMAXPROCS(before)
		if (&Prefork{GOMAXPROCS: set}).limitCPUs(); runtime.GOMAXPROCS(0) != want {
			t.Errorf("GOMAXPROCS %d: %d", set, runtime.GOMAXPROCS(0))
		}
	}
}

// A test that sets the marker plays the worker in its own process.
func TestChildInProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SO_REUSEPORT")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	t.Setenv(markerVariable, "1")
	done := errors.New("done")
	var addr net.Addr
	var rest []string
	check := func(ln net.Listener) error {
		addr = ln.Addr()
		ln.Close()
		return done
	}
	p := &Prefork{
		Reuseport: true,
		ServeFunc: check,
		ServeTLSFunc: func(ln net.Listener, certFile, keyFile string) error {
			rest = []string{certFile, keyFile}
			return check(ln)
		},
		ServeTLSEmbedFunc: func(ln net.Listener, certData, keyData []byte) error {
			rest = []string{string(certData), string(keyData)}
			return check(ln)
		},
	}
	for name, serve := range map[string]func(string) error{
		"plain": p.ListenAndServe,
		"files": func(a string) error { return p.ListenAndServeTLS(a, "key", "cert") },
		"embed": func(a string) error { return p.ListenAndServeTLSEmbed(a, []byte("cert"), []byte("key")) },
	} {
		rest = nil
		if err := serve("127.0.0.1:0"); !errors.Is(err, done) {
			t.Errorf("%s: %v", name, err)
		}
		if a, ok := addr.(*net.TCPAddr); !ok || a.Port == 0 || runtime.GOMAXPROCS(0) != 1 {
			t.Errorf("%s: address %v, GOMAXPROCS %d", name, addr, runtime.GOMAXPROCS(0))
		}
		if name != "plain" && !slices.Equal(rest, []string{"cert", "key"}) {
			t.Errorf("%s: %q", name, rest)
		}
	}
	none := &Prefork{Reuseport: true}
	for name, serve := range map[string]func(string) error{
		"plain": none.ListenAndServe,
		"files": func(a string) error { return none.ListenAndServeTLS(a, "key", "cert") },
		"embed": func(a string) error { return none.ListenAndServeTLSEmbed(a, nil, nil) },
	} {
		if err := serve("127.0.0.1:0"); err != errNoServeFunc {
			t.Errorf("%s, without functions: %v", name, err)
		}
	}
	if err := p.ListenAndServe("256.0.0.1:0"); err == nil || errors.Is(err, done) {
		t.Errorf("an address that is none: %v", err)
	}
}

// The hooks are called in their order, with the processes that the producer started.
// The threshold counts all exits, including those with status 0.
func TestHooks(t *testing.T) {
	for _, threshold := range []int{0, 1, 3} {
		untilReady, ready, err := os.Pipe() // no process ends before OnMasterReady
		if err != nil {
			t.Fatal(err)
		}
		defer untilReady.Close()
		defer ready.Close()
		var mu sync.Mutex
		var events []string
		note := func(event string) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, event)
		}
		p := &Prefork{
			Logger: quiet(), Reuseport: true, Workers: 2, RecoverThreshold: threshold, ShutdownGracePeriod: time.Second,
			CommandProducer: func([]*os.File) (*exec.Cmd, error) {
				c := exec.Command("cat")
				c.Stdin = untilReady
				return c, c.Start()
			},
			OnChildSpawn: func(int) error { note("spawn"); return nil },
			OnMasterReady: func(pids []int) error {
				note("ready")
				ready.Close()
				if len(pids) != 2 || pids[0] == pids[1] {
					t.Errorf("OnMasterReady got %v", pids)
				}
				return nil
			},
			OnChildRecover: func(old, now int) { note("recover") },
		}
		if err := p.ListenAndServe("127.0.0.1:0"); !errors.Is(err, ErrOverRecovery) {
			t.Errorf("threshold %d: %v", threshold, err)
		}
		recovered, spawned := 0, 0
		for i, e := range events {
			if e == "spawn" {
				spawned++
			}
			if e == "recover" {
				recovered++
				if !slices.Contains(events[:i], "spawn") {
					t.Errorf("threshold %d: %v", threshold, events)
				}
			}
		}
		// Two may die at the same time.
		if recovered > threshold || recovered < threshold-1 || spawned != 2+recovered || !slices.Contains(events, "ready") {
			t.Errorf("threshold %d: %v", threshold, events)
		}
	}
}

func TestHookErrors(t *testing.T) {
	bad := errors.New("bad")
	for name, change := range map[string]func(*Prefork){
		"spawn":    func(p *Prefork) { p.OnChildSpawn = func(int) error { return bad } },
		"ready":    func(p *Prefork) { p.OnMasterReady = func([]int) error { return bad } },
		"config":   func(p *Prefork) { p.LoadConfig = func() ([]byte, error) { return nil, bad } },
		"producer": func(p *Prefork) { p.CommandProducer = func([]*os.File) (*exec.Cmd, error) { return nil, bad } },
	} {
		p := &Prefork{Logger: quiet(), Reuseport: true, Workers: 2, RecoverThreshold: 1000, CommandProducer: dummy, RecoverInterval: time.Second}
		change(p)
		if err := p.ListenAndServe("127.0.0.1:0"); !errors.Is(err, bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProducerErrors(t *testing.T) {
	for want, produce := range map[error]func([]*os.File) (*exec.Cmd, error){
		ErrCommandProducerNilCmd:     func([]*os.File) (*exec.Cmd, error) { return nil, nil },
		ErrCommandProducerNotStarted: func([]*os.File) (*exec.Cmd, error) { return exec.Command(os.Args[0]), nil },
	} {
		p := &Prefork{Logger: quiet(), Reuseport: true, Workers: 1, CommandProducer: produce}
		if err := p.ListenAndServe("127.0.0.1:0"); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// Without Reuseport the producer gets the listener first.
func TestProducerFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		if err := (&Prefork{}).ListenAndServe("127.0.0.1:0"); !errors.Is(err, ErrOnlyReuseportOnWindows) {
			t.Errorf("%v", err)
		}
		return
	}
	p := &Prefork{Logger: quiet(), Workers: 1}
	p.CommandProducer = func(files []*os.File) (*exec.Cmd, error) {
		ln, err := net.FileListener(files[0])
		if err != nil {
			t.Error(err)
		} else {
			if _, ok := ln.Addr().(*net.TCPAddr); !ok {
				t.Errorf("files[0] is %v", ln.Addr())
			}
			ln.Close()
		}
		return dummy(files)
	}
	if err := p.ListenAndServe("127.0.0.1:0"); !errors.Is(err, ErrOverRecovery) {
		t.Errorf("%v", err)
	}
}

func TestBadAddresses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("workers listen")
	}
	for _, p := range []*Prefork{
		{Network: "udp"}, {Network: "tcp6"}, {Listen: []string{"nonsense"}}, {Listen: []string{"unix:/no/such/folder/socket"}},
	} {
		p.OnChildSpawn = func(int) error { t.Error("a worker was started"); return nil }
		p.Logger = quiet()
		if err := p.ListenAndServe("127.0.0.1:0"); err == nil {
			t.Errorf("%q %q: no error", p.Network, p.Listen)
		}
	}
}

// Stop ends the master in order.
func TestStop(t *testing.T) {
	p := &Prefork{Logger: quiet(), Workers: 1, RecoverThreshold: 1000, RecoverInterval: time.Minute, Reuseport: runtime.GOOS == "windows"}
	p.CommandProducer = dummy
	p.OnMasterReady = func([]int) error {
		if s := p.Status(); s.Wanted != 1 {
			t.Errorf("%+v", s)
		}
		p.Stop()
		return nil
	}
	if err := p.ListenAndServe("127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	p.Stop() // afterwards it does nothing
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		text := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(text, "prefork.(*publisher).publish(") && !strings.Contains(text, "prefork.rotateTickets(") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines stay:\n%s", text)
		}
	}
	if s := (&Prefork{}).Status(); s.Wanted != 0 || len(s.Workers) != 0 || (&Prefork{}).Addrs() != nil {
		t.Errorf("%+v", s)
	}
}
