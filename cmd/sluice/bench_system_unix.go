//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/load"
)

const (
	// threadDescriptors are what a thread's event loop has besides connections.
	threadDescriptors = 3
	// spareDescriptors are for everything else.
	spareDescriptors = 64
)

// checkDescriptors finds a number of connections that this process may not have.
func checkDescriptors(config load.Config) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // then it will show
	}
	threads := min(config.Threads, config.Connections)
	if need := uint64(config.Connections + threads*threadDescriptors + spareDescriptors); need > uint64(limit.Cur) {
		return fmt.Errorf("--connections: %d, on %s, need %d descriptors, and this process may have %d (ulimit -n)",
			config.Connections, count(threads, "thread"), need, limit.Cur)
	}
	return nil
}

// processCPU returns how much processor time this process has used.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
