package prefork

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// Times that are not set have the documented defaults.
func TestDefaultTimes(t *testing.T) {
	for _, c := range []struct {
		p                    *Prefork
		grace, drain, linger time.Duration
	}{
		{&Prefork{}, 5 * time.Second, 12 * time.Second, 5 * time.Second},
		{&Prefork{ShutdownGracePeriod: -1, DrainTimeout: -1, IdleLinger: -1}, 5 * time.Second, 12 * time.Second, 5 * time.Second},
		{&Prefork{ShutdownGracePeriod: 1}, 1, 12 * time.Second, 5 * time.Second},
		{&Prefork{ShutdownGracePeriod: time.Minute}, time.Minute, time.Minute, 5 * time.Second},
		{&Prefork{IdleLinger: 10 * time.Second}, 5 * time.Second, 22 * time.Second, 10 * time.Second},
		{&Prefork{ShutdownGracePeriod: 2, DrainTimeout: 1, IdleLinger: 1}, 2, 1, 1},
	} {
		if grace, drain, linger := c.p.grace(), c.p.drainTimeout(), c.p.idleLinger(); grace != c.grace || drain != c.drain || linger != c.linger {
			t.Errorf("%v, %v, %v: %v, %v, %v", c.p.ShutdownGracePeriod, c.p.DrainTimeout, c.p.IdleLinger, grace, drain, linger)
		}
	}
	if n := (&Prefork{}).network(); n != "tcp4" {
		t.Errorf("network %q", n)
	}
}

// Without a fleet, methods for the master do nothing.
func TestNoMaster(t *testing.T) {
	p := &Prefork{}
	p.Scale(3)
	p.Reopen()
}

// lines is a Logger that keeps its lines.
type lines struct{ all []string }

func (l *lines) Printf(format string, args ...any) {
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// If the log cannot be reopened, this is logged, and nothing else changes.
func TestReopenFails(t *testing.T) {
	log := &lines{}
	p := &Prefork{Logger: log}
	p.reopen()
	p.OnReopen = func() error { return nil }
	p.reopen()
	p.logger().Flush()
	if len(log.all) > 0 {
		t.Errorf("%q", log.all)
	}
	p.OnReopen = func() error { return errors.New("no room") }
	p.reopen()
	p.logger().Flush()
	if want := []string{"cannot reopen logs: no room"}; !slices.Equal(log.all, want) {
		t.Errorf("%q, want %q", log.all, want)
	}
}

// OnReload is called before LoadConfig and may refuse the restart.
func TestReloadOrder(t *testing.T) {
	bad := errors.New("bad")
	p := &Prefork{}
	if text, err := p.reload(); text != nil || err != nil {
		t.Errorf("without hooks: %q, %v", text, err)
	}
	p.LoadConfig = func() ([]byte, error) { return []byte("text"), nil }
	if text, err := p.reload(); string(text) != "text" || err != nil {
		t.Errorf("with LoadConfig: %q, %v", text, err)
	}
	p.OnReload = func() error { return nil }
	if text, err := p.reload(); string(text) != "text" || err != nil {
		t.Errorf("with both: %q, %v", text, err)
	}
	p.OnReload = func() error { return bad }
	if text, err := p.reload(); text != nil || err != bad {
		t.Errorf("refused: %q, %v", text, err)
	}
}

// Fields that are not set or invalid have the documented defaults.
func TestSupervisorConfig(t *testing.T) {
	p := &Prefork{BootTimeout: -1, HangTimeout: -1, Workers: -1}
	c := p.config()
	if c.Workers != runtime.GOMAXPROCS(0) || c.BootTimeout != 0 || c.HangTimeout != 0 || c.Inboxes || c.MaxWorkers != 0 {
		t.Errorf("%+v", c)
	}
	if h := c.Hooks; h.OnSpawn != nil || h.OnRecover != nil || h.OnReopen != nil || c.Start != nil {
		t.Errorf("hooks that were not set: %+v", h)
	}
	if c := (&Prefork{}).config(); c.Workers != runtime.GOMAXPROCS(0) {
		t.Errorf("%d workers", c.Workers)
	}
	spawned, recovered := 0, [2]int{}
	p = New(&sluice.Server{})
	p.Workers, p.MaxWorkers, p.BootTimeout, p.HangTimeout = 5, 3, time.Second, time.Minute
	p.OnChildSpawn = func(pid int) error { spawned = pid; return ErrQuit }
	p.OnChildRecover = func(old, now int) { recovered = [2]int{old, now} }
	c = p.config()
	if c.Workers != 5 || c.MaxWorkers != 5 || c.BootTimeout != time.Second || c.HangTimeout != time.Minute || !c.Inboxes {
		t.Errorf("%+v", c)
	}
	if err := c.Hooks.OnSpawn(1, 11); err != ErrQuit || spawned != 11 {
		t.Errorf("OnChildSpawn: %v, %d", err, spawned)
	}
	if c.Hooks.OnRecover(1, 12, 13); recovered != [2]int{12, 13} {
		t.Errorf("OnChildRecover: %v", recovered)
	}
	if p.MaxWorkers = 1; p.config().MaxWorkers != 5 {
		t.Errorf("fewer MaxWorkers than Workers: %d", p.config().MaxWorkers)
	}
	if p.Workers = 1; p.config().Workers != 1 {
		t.Errorf("one worker became %d", p.config().Workers)
	}
	if p.MaxWorkers = 7; p.config().MaxWorkers != 7 {
		t.Errorf("MaxWorkers: %d", p.config().MaxWorkers)
	}
}

// With Reuseport, workers listen themselves where the master cannot do it for them.
func TestWorkersListen(t *testing.T) {
	for _, c := range []struct{ reuseport, produces, want bool }{
		{false, false, false}, {false, true, false}, {true, true, true}, {true, false, !hasSlotSockets},
	} {
		p := &Prefork{Reuseport: c.reuseport}
		if c.produces {
			p.CommandProducer = dummy
		}
		if got := p.workersListen(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// slowLog is a Logger that needs time for each line.
type slowLog struct{ lines atomic.Int32 }

func (l *slowLog) Printf(string, ...any) {
	time.Sleep(time.Millisecond)
	l.lines.Add(1)
}

// The log is complete when ListenAndServe returns.
func TestLogIsComplete(t *testing.T) {
	log := &slowLog{}
	p := &Prefork{Logger: log, Network: "none"}
	for range 20 {
		p.logger().Printf("a line")
	}
	if err := p.ListenAndServe("127.0.0.1:0"); err == nil || log.lines.Load() != 20 {
		t.Errorf("%v; %d lines are written", err, log.lines.Load())
	}
}

// The errors of a restart can be told apart.
func TestRestartErrorUnwraps(t *testing.T) {
	if err := error(&RestartError{Slot: 3, Err: ErrStopping}); !errors.Is(err, ErrStopping) || err.Error() != "sluice: rolling restart failed in slot 3: "+ErrStopping.Error() {
		t.Error(err)
	}
}

func TestOverRecoveryNames(t *testing.T) {
	if got := fmt.Sprint(OverRecoveryAuto, OverRecoveryExit, OverRecoveryDegrade, OverRecovery(3)); got != "auto exit degrade OverRecovery(3)" {
		t.Error(got)
	}
}

// A fleet goes on after too many deaths if the program says so, or says nothing at all.
func TestWhoDegrades(t *testing.T) {
	made := func(change func(*Prefork)) *Prefork {
		p := New(&sluice.Server{})
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		p    *Prefork
		want bool
	}{
		"New":                     {made(func(*Prefork) {}), true},
		"New and a threshold":     {made(func(p *Prefork) { p.RecoverThreshold += 3 }), false},
		"New and no death":        {made(func(p *Prefork) { p.RecoverThreshold = 0 }), false},
		"New and exit":            {made(func(p *Prefork) { p.OverRecovery = OverRecoveryExit }), false},
		"a threshold and degrade": {made(func(p *Prefork) { p.RecoverThreshold, p.OverRecovery = 9, OverRecoveryDegrade }), true},
		"a literal":               {&Prefork{}, false},
		"a literal with that":     {&Prefork{RecoverThreshold: New(&sluice.Server{}).RecoverThreshold}, false},
		"a literal that degrades": {&Prefork{OverRecovery: OverRecoveryDegrade}, true},
	} {
		if got := c.p.config().OverRecovery == supervise.OverRecoveryDegrade; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
