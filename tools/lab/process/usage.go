//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that the child's threads have used, to the
// nanosecond as the scheduler counts it.
func (c *Child) CPU() (time.Duration, error) { return processCPU(c.cmd.Process.Pid) }

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

// Descriptors returns how many descriptors the child has open.
func (c *Child) Descriptors() (int, error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	return len(names), err
}

// raisePriority puts a process before others on its CPU. Those who may not do
// that go without.
func raisePriority(pid int) {
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, -15)
}

// DescriptorLimit returns how many descriptors a process may have.
func DescriptorLimit() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int(min(limit.Max, 1<<30)), nil
}

// CheckConnections says whether a server may have so many connections.
func CheckConnections(conns int) error {
	const spare = 100 // descriptors for other purposes
	limit, err := DescriptorLimit()
	if err != nil {
		return err
	}
	if conns < 1 || conns+spare > limit {
		return fmt.Errorf("%d connections: want 1 to %d, a process may have %d descriptors (ulimit -Hn)", conns, limit-spare, limit)
	}
	return nil
}
