package system

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
)

// fake returns a file system with files.
func fake(t *testing.T, files map[string]string) Files {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Files{Root: root}
}

const limitsText = `Limit                     Soft Limit           Hard Limit           Units
Max processes             500                  unlimited            processes
Max open files            1024                 20000                files
`

func TestLimits(t *testing.T) {
	files := map[string]string{
		"proc/self/limits":                          limitsText,
		"proc/sys/fs/nr_open":                       "1048576\n",
		"proc/sys/fs/file-max":                      "9223372036854775807\n",
		"proc/sys/fs/file-nr":                       "1920\t0\t2466170\n",
		"proc/sys/net/ipv4/ip_local_port_range":     "32768\t60999\n",
		"proc/sys/net/ipv4/tcp_mem":                 "287898\t383867\t575796\n",
		"proc/sys/net/core/somaxconn":               "4096\n",
		"proc/sys/net/ipv4/tcp_ehash_entries":       "-262144\n", // shared
		"proc/sys/net/ipv4/tcp_child_ehash_entries": "1024\n",
		"proc/sys/fs/epoll/max_user_watches":        "1000\n",
		"proc/sys/net/netfilter/nf_conntrack_max":   "65536\n",
		"proc/sys/net/netfilter/nf_conntrack_count": "3\n",
		"proc/meminfo":                              "MemTotal: 100 kB\nMemAvailable:   2000 kB\nSlab: 7 kB\n",
		"proc/sys/net/ipv4/tcp_congestion_control":  "cubic\n",
	}
	want := plan.Limits{
		FilesSoft: 1024, FilesHard: 20000, FilesPerProc: 1048576, FilesMax: math.MaxInt / 2, FilesOpen: 1920,
		PortFirst: 32768, PortLast: 60999, TCPPages: 575796, Backlog: 4096, Buckets: 262144, ChildBuckets: 1024, Watches: 1000, Tracked: 65536, Cores: runtime.NumCPU(), Memory: 2000 << 10,
	}
	f := fake(t, files)
	if got := f.Limits(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if f.CongestionControl() != "cubic" {
		t.Error(f.CongestionControl())
	}
	files["sys/fs/cgroup/memory.max"] = "1000000\n"
	files["sys/fs/cgroup/memory.current"] = "300000\n"
	files["sys/fs/cgroup/pids.max"] = "100\n"
	files["sys/fs/cgroup/pids.current"] = "40\n"
	want.Memory, want.Processes = 700_000, 60
	if got := fake(t, files).Limits(); got != want {
		t.Errorf("in a control group: %+v", got)
	}
	files["sys/fs/cgroup/memory.max"], files["sys/fs/cgroup/pids.max"] = "max\n", "max\n"
	want.Memory, want.Processes = 2000<<10, 0
	if got := fake(t, files).Limits(); got != want {
		t.Errorf("in a control group without limits: %+v", got)
	}
}

// TestNothing: a system that tells nothing is no reason to panic.
func TestNothing(t *testing.T) {
	f := fake(t, nil)
	if got := f.Limits(); got.FilesHard != 0 || got.Memory != 0 {
		t.Errorf("%+v", got)
	}
	if k := f.Kernel(true); k.Slab != 0 || k.Caches != nil {
		t.Errorf("%+v", k)
	}
	if f.Usage(1) != (Usage{}) || f.Proportional(1) != 0 || f.CPU() != 0 || f.Load() != 0 {
		t.Error("something comes out of nothing")
	}
}

func TestApply(t *testing.T) {
	const name = "proc/sys/net/core/somaxconn"
	f := fake(t, map[string]string{name: "128\n"})
	if err := f.Apply(plan.Setting{Key: "net.core.somaxconn", Value: "1024"}); err != nil {
		t.Fatal(err)
	}
	if got := f.read(name); got != "1024" {
		t.Errorf("the setting is %q", got)
	}
	if f.Apply(plan.Setting{Key: "no.such", Value: "1"}) == nil {
		t.Error("a setting that does not exist was made")
	}
}

const slabText = `slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
TCP                   10     13   2432   13    8 : tunables    0    0    0 : slabdata      2      3      0
filp                  10     16    256   16    1 : tunables    0    0    0 : slabdata      1      4      0
`

func TestUsage(t *testing.T) {
	f := fake(t, map[string]string{
		"proc/meminfo":        "Slab:   10 kB\n",
		"proc/net/sockstat":   "sockets: used 5\nTCP: inuse 4 orphan 0 tw 1 alloc 6 mem 3\nUDP: inuse 9 mem 9\n",
		"proc/slabinfo":       slabText,
		"proc/7/status":       "Name: x\nVmRSS:\t   30 kB\nRssAnon:\t   20 kB\n",
		"proc/7/smaps_rollup": "00-ff ---p 00 00:00 0 [rollup]\nRss: 30 kB\nPss:   25 kB\n",
		"proc/loadavg":        "1.50 1.0 0.5 1/2 3\n",
		"proc/stat":           "cpu  100 1 10 1000 5 2 3 0 0 0\ncpu0 1 1 1 1 1 1 1\n",
	})
	before := Kernel{Slab: 10 << 10, SockBuffer: 3 * 4096, Sockets: 4, Caches: map[string]uint64{"TCP": 3 * 8 * 4096, "filp": 4 * 4096}}
	if got := f.Kernel(true); !reflect.DeepEqual(got, before) {
		t.Errorf("got  %+v\nwant %+v", got, before)
	}
	if got := f.Usage(7); got != (Usage{RSS: 30 << 10, Anon: 20 << 10}) {
		t.Errorf("%+v", got)
	}
	if f.Proportional(7) != 25<<10 || f.Load() != 1.5 || f.CPU() != 1160*time.Millisecond {
		t.Errorf("%d, %v, %v", f.Proportional(7), f.Load(), f.CPU())
	}
	after := Kernel{Caches: map[string]uint64{"TCP": 4 * 8 * 4096, "filp": 9 * 4096, "new": 100}}
	want := []Growth{{"TCP", 8 * 4096}, {"filp", 5 * 4096}}
	if got := Grown(before, after, 2); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
