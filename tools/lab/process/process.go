//go:build unix

package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// A Role is what a program does when it was started by itself. It gets what was
// given to Start.
type Role func(config []byte) error

// Main runs the role named by the program's first argument and exits, if there
// is one of that name. The role of servers is built in.
func Main(roles map[string]Role) {
	if len(os.Args) != 3 {
		return
	}
	role := roles[os.Args[1]]
	if role == nil {
		return
	}
	if err := role([]byte(os.Args[2])); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", strings.Join(os.Args[1:], " "), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// AnyCPU lets a child run on every CPU.
const AnyCPU = -1

// Options say how a child is started.
type Options struct {
	CPU   int // or AnyCPU
	Procs int // GOMAXPROCS; 0: as many as CPUs
	// Urgent children go before others on their CPU, if the user may have it
	// so: what they measure should not be their own wait.
	Urgent bool
	// Env has settings such as "GOGC=off".
	Env []string
	// Multipath gives a service a listener for Multipath TCP, as net.Listen does
	// where the kernel has it.
	Multipath bool
	// Under is a command, with arguments, that runs the child, such as a profiler's.
	Under []string
	// Program is another build of this program, of another commit perhaps, that plays
	// the role; "": this one.
	Program string

	files []*os.File // descriptors 3 and up
}

// Command returns how a program is started. Settings of Go's runtime that this
// process has are not passed on: they would make the figures something else.
func (o Options) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := append(slices.Concat(o.Under, []string{name}), args...)
	if o.CPU != AnyCPU {
		command = append([]string{"taskset", "-c", strconv.Itoa(o.CPU)}, command...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = o.files
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isRuntimeSetting), o.Env...)
	if o.Procs > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(o.Procs))
	}
	return cmd
}

// isRuntimeSetting reports whether a variable changes Go's runtime.
func isRuntimeSetting(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return name == "GOMAXPROCS" || name == "GOGC" || name == "GOMEMLIMIT"
}

// A Child is this program, or another build of it, started again.
type Child struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

// longestLine bounds what a child says in one line, in bytes.
const longestLine = 1 << 20

// Start starts this program, or o.Program, in a role, which gets config as JSON.
func Start(ctx context.Context, o Options, role string, config any) (*Child, error) {
	program := o.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: o.Command(ctx, program, role, string(text))}
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(output)
	c.lines.Buffer(nil, longestLine)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if o.Urgent {
		raisePriority(c.cmd.Process.Pid)
	}
	return c, nil
}

// Stop ends the child by ending its standard input, and waits for it.
func (c *Child) Stop() error {
	c.input.Close()
	return c.cmd.Wait()
}

// Signal sends the child a signal.
func (c *Child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// Line waits for the next line of the child's output.
func (c *Child) Line() (string, error) {
	if !c.lines.Scan() {
		return "", fmt.Errorf("process %d said no more: %w", c.cmd.Process.Pid, errors.Join(c.lines.Err(), c.cmd.Wait()))
	}
	return c.lines.Text(), nil
}

// Tell sends the child a line.
func (c *Child) Tell(line string) error {
	_, err := io.WriteString(c.input, line+"\n")
	return err
}

// Result waits for the next line of the child's output and reads it as JSON
// into result.
func (c *Child) Result(result any) error {
	line, err := c.Line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), result); err != nil {
		return fmt.Errorf("process %d said %q: %w", c.cmd.Process.Pid, line, err)
	}
	return nil
}
