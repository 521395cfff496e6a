//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// TreeCPU returns the CPU time of the child and of the processes that it
// started, to the nanosecond as the scheduler counts it.
func (c *Child) TreeCPU() (time.Duration, error) { return treeCPU(c.cmd.Process.Pid) }

// A Usage is the CPU time of processes. User and System are sampled by the kernel with
// each tick, so they are good for shares over seconds.
type Usage struct {
	CPU          time.Duration // to the nanosecond, as the scheduler counts it
	User, System time.Duration // in user mode, and in the kernel
}

// Add adds what was used between before and after.
func (u *Usage) Add(before, after Usage) {
	u.CPU += after.CPU - before.CPU
	u.User += after.User - before.User
	u.System += after.System - before.System
}

// UserShare returns the part of the time that was spent in user mode, 0 if there is none.
func (u *Usage) UserShare() float64 {
	if u.User+u.System == 0 {
		return 0
	}
	return float64(u.User) / float64(u.User+u.System)
}

// TreeUsage returns the CPU time of the child and of the processes that it started.
func (c *Child) TreeUsage() (Usage, error) { return treeUsage(c.cmd.Process.Pid) }

func treeUsage(root int) (sum Usage, err error) {
	err = each(root, func(pid int) (err error) {
		one := Usage{}
		if one.CPU, err = processCPU(pid); err != nil {
			return err
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if one.User, one.System, err = parseModes(string(text)); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		sum.Add(Usage{}, one)
		return nil
	})
	return sum, err
}

// parseModes reads the times of a process from its stat (proc_pid_stat(5)).
func parseModes(text string) (user, system time.Duration, err error) {
	const (
		tick  = time.Second / 100 // USER_HZ
		first = 11                // of the fields after the name, utime; then stime
	)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < first+2 {
		return 0, 0, fmt.Errorf("%q has no times", text)
	}
	u, err := strconv.ParseInt(fields[first], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	s, err := strconv.ParseInt(fields[first+1], 10, 64)
	return time.Duration(u) * tick, time.Duration(s) * tick, err
}

func treeCPU(root int) (sum time.Duration, err error) {
	err = each(root, func(pid int) error {
		used, err := processCPU(pid)
		sum += used
		return err
	})
	return sum, err
}

// CPU returns the CPU time of a process, to the nanosecond as the scheduler counts it.
func CPU(pid int) (time.Duration, error) { return processCPU(pid) }

// processCPU returns the CPU time of a process's threads.
func processCPU(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(threads) == 0 {
		return 0, fmt.Errorf("no schedstat of process %d: has it ended, or does the kernel lack CONFIG_SCHED_INFO?", pid)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended since
		}
		used, _, _ := strings.Cut(string(text), " ")
		nanoseconds, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += time.Duration(nanoseconds)
	}
	return sum, nil
}

// each calls f for a process and for those that descend from it. An error about a descendant
// that has ended since is none: servers start programs that live for a moment.
func each(root int, f func(pid int) error) error {
	processes, err := tree(root)
	if err != nil {
		return err
	}
	for _, pid := range processes {
		if err := f(pid); err != nil && (pid == root || !hasEnded(pid)) {
			return err
		}
	}
	return nil
}

// hasEnded reports whether a process is gone, or waits to be reaped: then it has no memory.
func hasEnded(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	state := strings.TrimSpace(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// tree returns a process and those that descend from it.
func tree(root int) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended since
		}
		pid, parent, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		children[parent] = append(children[parent], pid)
	}
	found := []int{root}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

// parseStat reads a process's number and its parent's: "12 (a name) S 1 …". The
// name may have anything in it.
func parseStat(text string) (pid, parent int, err error) {
	number, _, _ := strings.Cut(text, " ")
	rest := text[strings.LastIndexByte(text, ')')+1:]
	var state string
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		return 0, 0, fmt.Errorf("%q: %w", text, err)
	}
	pid, err = strconv.Atoi(number)
	return pid, parent, err
}
