//go:build linux

// Package run is the lab's coordinator: it starts the processes of a plan, has
// them connect and send, measures, and leaves nothing behind.
package run

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// A spawner starts processes from one thread that lives as long as it: the
// kernel sends them the signal of their parent's death when that thread ends,
// and Go's other threads come and go.
type spawner struct {
	work chan func()
	end  sync.Once
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with s
		for f := range s.work {
			f()
		}
	}()
	return s
}

// start starts a process that dies with this one.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // Ctrl-C is for the coordinator, which ends the others in order
	}
	result := make(chan error)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

func (s *spawner) close() { s.end.Do(func() { close(s.work) }) }

// A tail keeps the end of what a process has written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

// String returns the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// command returns the command of a process, with settings of Go's runtime.
func (o *Options) command(name string, settings []string, args ...string) (*exec.Cmd, *tail) {
	cmd := exec.Command(o.Program, append(append([]string(nil), o.ProcessArgs...), args...)...)
	cmd.Args = append(cmd.Args, name)
	for _, variable := range os.Environ() {
		if !isRuntimeSetting(variable) {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, settings...)
	errors := &tail{}
	cmd.Stderr = errors
	cmd.WaitDelay = endLimit // workers of prefork have it, too
	return cmd, errors
}

// isRuntimeSetting tells whether a variable changes Go's runtime, which would
// make the figures something else.
func isRuntimeSetting(variable string) bool {
	for _, name := range []string{"GOMAXPROCS=", "GOGC=", "GOMEMLIMIT="} {
		if len(variable) >= len(name) && variable[:len(name)] == name {
			return true
		}
	}
	return false
}
