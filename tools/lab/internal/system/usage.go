package system

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Kernel is the memory that the kernel holds for all processes of the machine.
type Kernel struct {
	Slab       uint64 `json:"slab"`        // bytes
	SockBuffer uint64 `json:"sock_buffer"` // pages of socket buffers, in bytes
	Sockets    int    `json:"sockets"`     // TCP, of all processes
	// Caches are the slab caches and their bytes; nil if they cannot be read.
	Caches map[string]uint64 `json:"caches,omitempty"`
}

const pageSize = 4096

// Kernel reads the kernel's memory. The caches take a moment.
func (f Files) Kernel(withCaches bool) Kernel {
	k := Kernel{Slab: f.kibibytes("proc/meminfo", "Slab:")}
	for line := range strings.Lines(f.read("proc/net/sockstat")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(fields); i += 2 {
			n, _ := strconv.Atoi(fields[i+1])
			switch fields[i] {
			case "inuse":
				k.Sockets = n
			case "mem":
				k.SockBuffer = uint64(n) * pageSize
			}
		}
	}
	if withCaches {
		k.Caches = f.caches()
	}
	return k
}

// caches reads /proc/slabinfo, which takes root.
func (f Files) caches() map[string]uint64 {
	text := f.read("proc/slabinfo")
	if text == "" {
		return nil
	}
	const pages, slabs = 5, 14
	all := make(map[string]uint64)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) <= slabs || fields[0] == "#" {
			continue
		}
		n, _ := strconv.ParseUint(fields[slabs], 10, 64)
		p, _ := strconv.ParseUint(fields[pages], 10, 64)
		all[fields[0]] = n * p * pageSize
	}
	return all
}

// Growth is how much a cache has grown.
type Growth struct {
	Cache string `json:"cache"`
	Bytes uint64 `json:"bytes"`
}

// Grown returns the caches that have grown most from before to after, the
// largest first.
func Grown(before, after Kernel, most int) []Growth {
	var all []Growth
	for name, bytes := range after.Caches {
		if old := before.Caches[name]; bytes > old {
			all = append(all, Growth{name, bytes - old})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].Bytes != all[j].Bytes {
			return all[i].Bytes > all[j].Bytes
		}
		return all[i].Cache < all[j].Cache
	})
	return all[:min(most, len(all))]
}

// Usage is the memory of a process, bytes.
type Usage struct {
	RSS  uint64 `json:"rss"`
	Anon uint64 `json:"anon"` // of that, what is the process's alone and no file
}

// Usage reads what a process uses.
func (f Files) Usage(pid int) Usage {
	name := fmt.Sprintf("proc/%d/status", pid)
	return Usage{RSS: f.kibibytes(name, "VmRSS:"), Anon: f.kibibytes(name, "RssAnon:")}
}

// Proportional returns a process's memory in which what it shares with others
// counts by its part (Pss).
func (f Files) Proportional(pid int) uint64 {
	return f.kibibytes(fmt.Sprintf("proc/%d/smaps_rollup", pid), "Pss:")
}

// Load returns the load average of the last minute.
func (f Files) Load() float64 {
	first, _, _ := strings.Cut(f.read("proc/loadavg"), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// CPU returns the processor time of the whole machine that was not idle.
func (f Files) CPU() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	for line := range strings.Lines(f.read("proc/stat")) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[0] != "cpu" {
			continue
		}
		var busy time.Duration
		for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			busy += time.Duration(n) * tick
		}
		return busy
	}
	return 0
}
