// Package cgroup reads the memory limit of this process's control group, of version 1 and
// 2. The limit on CPU time is read by Go's runtime itself, for GOMAXPROCS.
package cgroup

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// mostBytes bounds what is read of a file.
	mostBytes = 1 << 20
	// unlimited is the least number that version 1 writes for no limit, rounded down.
	unlimited = 1 << 62
	// The share of the limit that the Go heaps of all processes may take; the rest is for
	// the kernel's buffers, and for what Go's limit does not count.
	sharePercent = 90
)

// LimitMemory sets Go's memory limit (GOMEMLIMIT) to a share of nine tenths of the control
// group's, which is divided among so many processes. It does nothing if the group has no
// limit, if GOMEMLIMIT is set, which may be "off", or if debug.SetMemoryLimit has set another one.
func LimitMemory(processes int) {
	if os.Getenv("GOMEMLIMIT") != "" || debug.SetMemoryLimit(-1) != math.MaxInt64 || processes < 1 {
		return
	}
	if limit, isLimited := MemoryLimit(os.DirFS("/")); isLimited {
		debug.SetMemoryLimit(limit / 100 * sharePercent / int64(processes))
	}
}

// MemoryLimit returns the limit in bytes of this process's control group, or the smallest
// one of the groups around it that this process can see. root is the system's root
// directory.
func MemoryLimit(root fs.FS) (bytes int64, isLimited bool) {
	groups, mounts := read(root, "proc/self/cgroup"), read(root, "proc/self/mountinfo")
	limit := int64(unlimited)
	for _, v := range []struct{ controller, kind, file string }{
		{"memory", "cgroup", "memory.limit_in_bytes"},
		{"", "cgroup2", "memory.max"},
	} {
		group, found := groupOf(groups, v.controller)
		if !found {
			continue
		}
		mount, mountRoot, found := mountOf(mounts, v.kind, v.controller)
		if !found {
			continue
		}
		below, isBelow := strings.CutPrefix(group, strings.TrimSuffix(mountRoot, "/"))
		if !isBelow || strings.Contains(below, "..") {
			below = "" // a group outside of what this process sees
		}
		for dir := path.Join(mount, below); ; dir = path.Dir(dir) {
			text := strings.TrimSpace(read(root, strings.TrimPrefix(path.Join(dir, v.file), "/")))
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
			if dir == mount || len(dir) <= 1 {
				break
			}
		}
	}
	return limit, limit < unlimited
}

// read returns the beginning of a file, or nothing.
func read(root fs.FS, name string) string {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostBytes)) // what was read before an error is whole lines, or of no use
	return string(text)
}

// groupOf returns the group of a controller of version 1, or with "" that of version 2,
// in the text of /proc/self/cgroup.
func groupOf(text, controller string) (group string, found bool) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if ok && hasWord(controllers, controller) {
			return group, true
		}
	}
	return "", false
}

// mountOf returns where a hierarchy of groups is mounted, and which group is its root
// there, in the text of /proc/self/mountinfo.
func mountOf(text, kind, controller string) (mount, root string, found bool) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if ok && len(left) >= 5 && len(right) >= 3 && right[0] == kind && (controller == "" || hasWord(right[2], controller)) {
			return path.Clean("/" + left[4]), left[3], true
		}
	}
	return "", "", false
}

// hasWord reports whether a list with commas has a word; "" is in the empty list only.
func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
