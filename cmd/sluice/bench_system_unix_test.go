//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/tools/lab/load"
)

// TestCheckDescriptors: threads take descriptors, too.
func TestCheckDescriptors(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 || limit.Cur < 1000 {
		t.Skip(err, limit.Cur)
	}
	most := int(limit.Cur)
	for _, c := range []struct {
		connections, threads int
		fits                 bool
	}{{most / 2, 1, true}, {most, 1, false}, {most / 2, most / 2, false}, {10, most, true}} {
		if err := checkDescriptors(load.Config{Connections: c.connections, Threads: c.threads}); (err == nil) != c.fits {
			t.Errorf("%d connections, %d threads, %d descriptors: %v", c.connections, c.threads, most, err)
		}
	}
}
