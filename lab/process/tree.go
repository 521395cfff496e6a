//go:build unix

package process

import (
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

// TreeModes returns the CPU time of the child and of the processes that it started in
// user mode and in the kernel. The kernel samples these with each tick, so they are good
// for shares over seconds.
func (c *Child) TreeModes() (user, system time.Duration, err error) {
	return treeModes(c.cmd.Process.Pid)
}

func treeModes(root int) (user, system time.Duration, err error) {
	processes, err := tree(root)
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, 0, err
		}
		u, s, err := parseModes(string(text))
		if err != nil {
			return 0, 0, fmt.Errorf("process %d: %w", pid, err)
		}
		user, system = user+u, system+s
	}
	return user, system, nil
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
	processes, err := tree(root)
	if err != nil {
		return 0, err
	}
	for _, pid := range processes {
		used, err := processCPU(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
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
