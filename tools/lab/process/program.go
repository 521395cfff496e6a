//go:build unix

package process

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Program is another program that serves, with the processes that it starts.
type Program struct{ cmd *exec.Cmd }

// stopPatience is how long a program has to end after SIGTERM.
const stopPatience = 10 * time.Second

// StartProgram starts a program on a CPU, or on AnyCPU. It gets SIGTERM when it
// is stopped, when the context ends, and when this process dies.
func StartProgram(ctx context.Context, cpu int, name string, args ...string) (*Program, error) {
	cmd := Options{CPU: cpu}.Command(ctx, name, args...)
	cmd.SysProcAttr = endsWithParent()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopPatience
	return &Program{cmd}, cmd.Start()
}

// StartServer starts a program that listens on addr, and returns when a client can connect.
func StartServer(ctx context.Context, cpu int, addr, name string, args ...string) (*Program, error) {
	p, err := StartProgram(ctx, cpu, name, args...)
	if err != nil {
		return nil, err
	}
	if err := AwaitServer(ctx, addr); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// StartCommand starts a server as a command line says, in which {addr} stands for the address
// where it is to listen, and {port} for its port. more are further words and what they stand
// for, in turn.
func StartCommand(ctx context.Context, cpu int, line string, more ...string) (p *Program, addr string, err error) {
	if addr, err = FreeAddress(ctx); err != nil {
		return nil, "", err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	words := strings.Fields(strings.NewReplacer(append(more, "{addr}", addr, "{port}", port)...).Replace(line))
	p, err = StartServer(ctx, cpu, addr, words[0], words[1:]...)
	return p, addr, err
}

// CPU returns the CPU time of the program and of the processes that it started.
func (p *Program) CPU() (time.Duration, error) { return treeCPU(p.cmd.Process.Pid) }

// TreeUsage returns the CPU time of the program and of the processes that it started.
func (p *Program) TreeUsage() (Usage, error) { return treeUsage(p.cmd.Process.Pid) }

// Signal sends the program a signal.
func (p *Program) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop ends the program and waits for it. That it ended by the signal is no
// error.
func (p *Program) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.cmd.Wait()
	}
	err := p.cmd.Wait()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
		return nil
	}
	return err
}
