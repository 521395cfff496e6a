//go:build linux

// Package member is what the lab's processes do: serve connections, or hold and
// use them, as the coordinator says. They end when it does.
package member

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
)

// A role is what a process does once it is configured.
type role interface {
	// start is called once, on a goroutine of its own. It may return when there
	// is nothing left to do; an error ends the process.
	start() error
	// receive carries out an order. It must not wait.
	receive(m control.Message)
	// count fills in what only the role knows.
	count(s *control.Stats)
}

// Main is a whole process. name is the coordinator's address.
func Main(name string, hello control.Hello) error {
	link, err := control.Dial(name)
	if err != nil {
		return fmt.Errorf("cannot reach the coordinator: %w", err)
	}
	hello.PID = os.Getpid()
	if err := link.Send(control.Message{Hello: &hello}); err != nil {
		return err
	}
	m, err := link.Receive()
	if err != nil || m.Config == nil {
		return fmt.Errorf("the coordinator does not say what to do: %w", err)
	}
	p := &process{link: link, config: *m.Config, hello: hello}
	p.role = p.newRole()
	go p.run()
	go p.report()
	return p.obey()
}

// A process is one of the lab's.
type process struct {
	link   *control.Link
	config control.Config
	hello  control.Hello
	role   role
}

func (p *process) newRole() role {
	switch p.hello.Role {
	case control.Client:
		return newClient(p)
	case control.Master:
		return &master{process: p}
	default:
		return newServer(p)
	}
}

// run is the role. What it cannot do ends the process.
func (p *process) run() {
	if err := p.role.start(); err != nil {
		p.fail(err)
	}
}

// fail tells the coordinator why the process ends, and ends it.
func (p *process) fail(err error) {
	_ = p.link.Send(control.Message{Failure: &control.Failure{Text: err.Error()}})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// obey carries out orders until the coordinator has gone, or says so.
func (p *process) obey() error {
	for {
		m, err := p.link.Receive()
		switch {
		case errors.Is(err, io.EOF), m.Stop != nil:
			// Nothing is worth being ended in order, and connections would be
			// closed one by one.
			os.Exit(0)
		case err != nil:
			return err
		case m.Sample != nil:
			if m.Sample.Collects {
				runtime.GC() // what pools have is garbage after two
				debug.FreeOSMemory()
			}
			p.send(p.stats(true))
		default:
			p.role.receive(m)
		}
	}
}

// report sends stats now and then.
func (p *process) report() {
	for range time.Tick(max(p.config.Every, 10*time.Millisecond)) {
		p.send(p.stats(false))
	}
}

func (p *process) send(s control.Stats) {
	_ = p.link.Send(control.Message{Stats: &s}) // who does not read is gone, and obey notices
}

// memoryNames are what stats reads from the runtime.
var memoryNames = [...]string{
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/stacks:bytes",
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
	"/sched/goroutines:goroutines",
}

func (p *process) stats(isAsked bool) control.Stats {
	var samples [len(memoryNames)]metrics.Sample
	for i, name := range memoryNames {
		samples[i].Name = name
	}
	metrics.Read(samples[:])
	s := control.Stats{
		Asked:      isAsked,
		CPU:        ownCPU(),
		Heap:       samples[0].Value.Uint64(),
		Stacks:     samples[1].Value.Uint64(),
		Runtime:    samples[2].Value.Uint64() - samples[3].Value.Uint64(),
		Goroutines: int(samples[4].Value.Uint64()),
	}
	p.role.count(&s)
	return s
}

// ownCPU returns the processor time of this process so far.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
