//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is what the kernel counts of a process's memory, in bytes.
type Memory struct {
	Resident     int64 // VmRSS
	Peak         int64 // VmHWM: the most that Resident was
	Proportional int64 // Pss: shared pages count in part
}

// Memory returns the child's memory.
func (c *Child) Memory() (m Memory, err error) {
	pid := c.cmd.Process.Pid
	status, err := kibibytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS", "VmHWM")
	if err != nil {
		return m, err
	}
	m.Resident, m.Peak = status[0], status[1]
	smaps, err := kibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss")
	if err != nil {
		return m, err
	}
	m.Proportional = smaps[0]
	return m, nil
}

// ResetPeak makes the child's Memory.Peak what its Memory.Resident is.
func (c *Child) ResetPeak() error {
	const resetsPeak = "5" // proc_pid_clear_refs(5)
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", c.cmd.Process.Pid), []byte(resetsPeak), 0)
}

// kibibytes returns values of a file that has lines such as "VmRSS:  12 kB", in
// bytes.
func kibibytes(name string, keys ...string) ([]int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	values := make([]int64, len(keys))
	for i, key := range keys {
		_, rest, found := strings.Cut("\n"+string(text), "\n"+key+":")
		fields := strings.Fields(rest)
		if !found || len(fields) < 2 || fields[1] != "kB" {
			return nil, fmt.Errorf("%s has no %s in kB", name, key)
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[i] = n << 10
	}
	return values, nil
}

// SocketMemory returns how many bytes TCP's buffers have in the kernel, of all
// processes.
func SocketMemory() (int64, error) {
	const name = "/proc/net/sockstat"
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nTCP: ")
	line, _, _ := strings.Cut(rest, "\n")
	_, pages, found := strings.Cut(line, " mem ")
	if !found {
		return 0, fmt.Errorf("%s does not say how much memory TCP has", name)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(pages), 10, 64)
	return n * int64(os.Getpagesize()), err
}

// FreeSpace returns how many bytes the user can write below a folder.
func FreeSpace(folder string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, fmt.Errorf("%s: %w", folder, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
