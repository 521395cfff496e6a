package cgroup

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMain(m *testing.M) {
	if os.Getenv("CGROUP_TEST") == "" {
		os.Exit(m.Run())
	}
	fmt.Println(MemoryLimit(os.DirFS("/")))
	LimitMemory(3)
	fmt.Println(debug.SetMemoryLimit(-1))
}

// What systems have in these files, as recorded.
const (
	v2Groups = "0::/system.slice/app.service\n"
	v2Mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
	v1Groups = "9:name=systemd:/\n8:pids:/\n4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n"
	// A container sees its own group as the root of the mount.
	v1Mounts = "40 30 0:35 /docker/abc /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup rw,memory\n"
)

func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		name, groups, mounts string
		files                map[string]string // below /sys/fs/cgroup
		want                 int64             // 0: none
	}{
		{"nothing", "", "", nil, 0},
		{"v2", v2Groups, v2Mounts, map[string]string{"system.slice/app.service/memory.max": "268435456\n"}, 256 << 20},
		{"v2 without a limit", v2Groups, v2Mounts, map[string]string{"system.slice/app.service/memory.max": "max\n"}, 0},
		{"v2, the group around it", v2Groups, v2Mounts, map[string]string{"system.slice/app.service/memory.max": "max\n", "system.slice/memory.max": "1000000\n"}, 1000000},
		{"v2, the smaller one", v2Groups, v2Mounts, map[string]string{"system.slice/app.service/memory.max": "3000000\n", "system.slice/memory.max": "2000000\n"}, 2000000},
		{"v2 in a container", "0::/\n", v2Mounts, map[string]string{"memory.max": "536870912\n"}, 512 << 20},
		{"v2, a group that is not seen", "0::/../../other\n", v2Mounts, map[string]string{"memory.max": "5000\n"}, 5000},
		{"v2 not mounted", v2Groups, v1Mounts, map[string]string{"memory.max": "5000\n"}, 0},
		{"v1 in a container", v1Groups, v1Mounts, map[string]string{"memory/memory.limit_in_bytes": "134217728\n"}, 128 << 20},
		{"v1 on a host", v1Groups, strings.ReplaceAll(v1Mounts, "/docker/abc", "/"), map[string]string{"memory/docker/abc/memory.limit_in_bytes": "77\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 77},
		{"v1 without a limit", v1Groups, v1Mounts, map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"hybrid", v1Groups, v1Mounts + v2Mounts, map[string]string{"memory/memory.limit_in_bytes": "42\n"}, 42},
		{"nonsense", "::\n:memory\nx", "- - -\n a - cgroup2\n", nil, 0},
	} {
		files := fstest.MapFS{
			"proc/self/cgroup":    {Data: []byte(c.groups)},
			"proc/self/mountinfo": {Data: []byte(c.mounts)},
		}
		for name, text := range c.files {
			files["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		got, isLimited := MemoryLimit(files)
		if isLimited != (c.want != 0) || isLimited && got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, isLimited, c.want)
		}
	}
}

func FuzzMemoryLimit(f *testing.F) {
	f.Add(v2Groups, v2Mounts, "1\n")
	f.Add(v1Groups, v1Mounts, "max")
	f.Fuzz(func(t *testing.T, groups, mounts, limit string) {
		files := fstest.MapFS{
			"proc/self/cgroup": {Data: []byte(groups)}, "proc/self/mountinfo": {Data: []byte(mounts)},
			"sys/fs/cgroup/memory.max": {Data: []byte(limit)}, "sys/fs/cgroup/memory/memory.limit_in_bytes": {Data: []byte(limit)},
		}
		if n, isLimited := MemoryLimit(files); isLimited && (n <= 0 || n >= unlimited) {
			t.Errorf("%d", n)
		}
	})
}

// A limit that is set already stays.
func TestLimitIsSet(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 40))
	if LimitMemory(1); debug.SetMemoryLimit(-1) != 1<<40 {
		t.Errorf("%d", debug.SetMemoryLimit(-1))
	}
}

// The kernel's own files: a child in a group with a limit.
func TestRealGroup(t *testing.T) {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	kind, controller, file := "cgroup", "memory", "memory.limit_in_bytes"
	mount, root, found := mountOf(string(mounts), kind, controller)
	if !found {
		kind, controller, file = "cgroup2", "", "memory.max"
		mount, root, found = mountOf(string(mounts), kind, controller)
	}
	group, _ := groupOf(string(groups), controller)
	if !found || root != "/" {
		t.Skip("there are no control groups here that a test can make")
	}
	dir := filepath.Join(mount, group, fmt.Sprintf("sluice-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	defer os.Remove(dir)
	if err := os.WriteFile(filepath.Join(dir, file), []byte("1073741824"), 0o600); err != nil {
		t.Skip(err)
	}
	for variable, limit := range map[string]int64{"": 1073741824 / 100 * 90 / 3, "off": math.MaxInt64} {
		c := exec.Command("sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$1"`, dir, os.Args[0])
		c.Env = append(os.Environ(), "CGROUP_TEST=1", "GOMEMLIMIT="+variable)
		out, err := c.CombinedOutput()
		if want := fmt.Sprintf("1073741824 true\n%d\n", limit); err != nil || string(out) != want {
			t.Errorf("GOMEMLIMIT=%s: %v: %s, want %s", variable, err, out, want)
		}
	}
}
