package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU returns the CPU time that the child's threads have used, to the
// nanosecond as the scheduler counts it.
func (c *Child) CPU() (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	if len(threads) == 0 {
		return 0, fmt.Errorf("no schedstat of process %d: has it ended, or does the kernel lack CONFIG_SCHED_INFO?", c.cmd.Process.Pid)
	}
	var sum time.Duration
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

// AnonymousMemory returns how many bytes of memory the child has that are no
// file's: heap and stacks.
func (c *Child) AnonymousMemory() (int64, error) {
	name := fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kibibytes << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no RssAnon", name)
}
