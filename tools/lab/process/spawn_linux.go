package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// A Spawner starts processes from one thread that lives as long as it: the
// kernel sends them the signal of their parent's death when that thread ends,
// and Go's other threads come and go.
type Spawner struct {
	work chan func()
	end  sync.Once
}

// NewSpawner returns one. Close it after use.
func NewSpawner() *Spawner {
	s := &Spawner{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with s
		for f := range s.work {
			f()
		}
	}()
	return s
}

// Start starts a process that dies with this one.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // Ctrl-C is for the coordinator, which ends the others in order
	}
	result := make(chan error)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// Close ends the thread, and with it the processes.
func (s *Spawner) Close() { s.end.Do(func() { close(s.work) }) }
