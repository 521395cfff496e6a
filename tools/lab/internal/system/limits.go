// Package system reads what the lab has to know about the machine: limits,
// memory, and what processes use.
package system

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
)

// A Files is where the system tells about itself: the file system, or in tests a
// folder that looks like it. The zero value is the file system.
type Files struct{ Root string }

// read returns a file's text without the white space around it.
func (f Files) read(name string) string {
	text, err := os.ReadFile(filepath.Join(f.Root+"/", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// number returns the first number of a file, 0 if there is none.
func (f Files) number(name string) int { return f.field(name, 0) }

// field returns the i-th number of a file.
func (f Files) field(name string, i int) int {
	fields := strings.Fields(f.read(name))
	if i >= len(fields) {
		return 0
	}
	n, err := strconv.ParseUint(fields[i], 10, 64)
	if err != nil {
		return 0
	}
	const most = math.MaxInt / 2 // file-max is 2^63-1 on some systems
	return int(min(n, most))
}

// magnitude returns the number of a file without its sign: a negative number of buckets
// is that of a table which network namespaces share (ip-sysctl).
func (f Files) magnitude(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(f.read(name), "-"))
	return n
}

// Limits reads what the system allows.
func (f Files) Limits() plan.Limits {
	l := plan.Limits{
		FilesPerProc: f.number("proc/sys/fs/nr_open"),
		FilesMax:     f.number("proc/sys/fs/file-max"),
		FilesOpen:    f.number("proc/sys/fs/file-nr"),
		PortFirst:    f.number("proc/sys/net/ipv4/ip_local_port_range"),
		PortLast:     f.field("proc/sys/net/ipv4/ip_local_port_range", 1),
		TCPPages:     f.field("proc/sys/net/ipv4/tcp_mem", 2),
		Backlog:      f.number("proc/sys/net/core/somaxconn"),
		Buckets:      f.magnitude("proc/sys/net/ipv4/tcp_ehash_entries"),
		ChildBuckets: f.number("proc/sys/net/ipv4/tcp_child_ehash_entries"),
		Watches:      f.number("proc/sys/fs/epoll/max_user_watches"),
		Cores:        runtime.NumCPU(),
		Memory:       f.availableMemory(),
	}
	if f.number("proc/sys/net/netfilter/nf_conntrack_count") > 0 {
		l.Tracked = f.number("proc/sys/net/netfilter/nf_conntrack_max")
	}
	l.FilesSoft, l.FilesHard = f.processLimit("Max open files")
	_, l.Processes = f.processLimit("Max processes")
	if pids := f.number("sys/fs/cgroup/pids.max"); pids > 0 {
		pids -= f.number("sys/fs/cgroup/pids.current")
		if l.Processes == 0 || pids < l.Processes {
			l.Processes = max(pids, 1)
		}
	}
	return l
}

// processLimit returns a line of /proc/self/limits; 0 stands for no limit.
func (f Files) processLimit(name string) (soft, hard int) {
	for line := range strings.Lines(f.read("proc/self/limits")) {
		rest, ok := strings.CutPrefix(line, name)
		if fields := strings.Fields(rest); ok && len(fields) >= 2 {
			soft, _ = strconv.Atoi(fields[0]) // "unlimited" is no number
			hard, _ = strconv.Atoi(fields[1])
			return soft, hard
		}
	}
	return 0, 0
}

// availableMemory returns what programs may take, which a control group may
// have bounded.
func (f Files) availableMemory() uint64 {
	available := f.kibibytes("proc/meminfo", "MemAvailable:")
	if limit := f.number("sys/fs/cgroup/memory.max"); limit > 0 {
		used := f.number("sys/fs/cgroup/memory.current")
		available = min(available, uint64(max(limit-used, 0)))
	}
	return available
}

// kibibytes returns the value of a line such as "Slab:  123 kB", in bytes.
func (f Files) kibibytes(name, key string) uint64 {
	for line := range strings.Lines(f.read(name)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == key {
			n, _ := strconv.ParseUint(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// Apply makes a setting of the kernel.
func (f Files) Apply(s plan.Setting) error {
	name := filepath.Join(f.Root+"/", "proc/sys", strings.ReplaceAll(s.Key, ".", "/"))
	if err := os.WriteFile(name, []byte(s.Value+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot set %s: %w", s.Key, err)
	}
	return nil
}

// Machine describes the machine in one line.
func (f Files) Machine() string {
	model := ""
	for line := range strings.Lines(f.read("proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores (%s), %.1f GB, Linux %s, %s", runtime.NumCPU(), model,
		float64(f.kibibytes("proc/meminfo", "MemTotal:"))/1e9, f.read("proc/sys/kernel/osrelease"), runtime.Version())
}

// CongestionControl returns the name of what new sockets use.
func (f Files) CongestionControl() string {
	return f.read("proc/sys/net/ipv4/tcp_congestion_control")
}
