package prefork

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what a process's threads have used since they began.
type usage struct {
	cpu    time.Duration
	sysmon time.Duration // the part of cpu that was that of Go's monitor thread
	waited time.Duration // were ready to run, and did not have a CPU
	slept  int           // gave up a CPU because there was nothing to do
	ousted int           // had to give up a CPU
}

func (u usage) plus(v usage) usage {
	return usage{u.cpu + v.cpu, u.sysmon + v.sysmon, u.waited + v.waited, u.slept + v.slept, u.ousted + v.ousted}
}

func (u usage) minus(v usage) usage {
	return usage{u.cpu - v.cpu, u.sysmon - v.sysmon, u.waited - v.waited, u.slept - v.slept, u.ousted - v.ousted}
}

// usageOf reads the usage of a Go process.
func usageOf(pid int) (sum usage, err error) {
	folder := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := threadsOf(pid, folder)
	if err != nil {
		return sum, err
	}
	for i, thread := range threads {
		u, err := usageOfThread(filepath.Join(folder, strconv.Itoa(thread)))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended since
		}
		if err != nil {
			return sum, err
		}
		const monitor = 1 // sysmon is the first thread that Go starts
		if i == monitor {
			u.sysmon = u.cpu
		}
		sum = sum.plus(u)
	}
	return sum, nil
}

// threadsOf returns a process's threads in the order in which they were started:
// numbers rise, and begin again when the highest was given.
func threadsOf(pid int, folder string) ([]int, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var upward, again []int
	for _, entry := range entries {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			return nil, err
		}
		if thread >= pid {
			upward = append(upward, thread)
		} else {
			again = append(again, thread)
		}
	}
	slices.Sort(upward)
	slices.Sort(again)
	return append(upward, again...), nil
}

func usageOfThread(folder string) (u usage, err error) {
	times, err := os.ReadFile(filepath.Join(folder, "schedstat"))
	if err != nil {
		return u, err
	}
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return u, err
	}
	if u, err = parseUsage(string(times), string(status)); err != nil {
		return u, fmt.Errorf("%s: %w", folder, err)
	}
	return u, nil
}

// parseUsage reads a thread's schedstat and status.
func parseUsage(times, status string) (u usage, err error) {
	if _, err := fmt.Sscan(times, (*int64)(&u.cpu), (*int64)(&u.waited)); err != nil {
		return u, fmt.Errorf("schedstat %q: %w", times, err)
	}
	for _, field := range []struct {
		name  string
		value *int
	}{{"voluntary_ctxt_switches", &u.slept}, {"nonvoluntary_ctxt_switches", &u.ousted}} {
		_, rest, _ := strings.Cut(status, "\n"+field.name+":")
		line, _, _ := strings.Cut(rest, "\n")
		if *field.value, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			return u, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return u, nil
}
