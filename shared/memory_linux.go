//go:build linux && !mips && !mipsle && !(arm && !arm.7)

package shared

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const memoryName = "sluice-shared"

// createFile returns a sealed memfd of size bytes. The seals prevent any process from
// shrinking it below what others have mapped.
func createFile(size int64) (*os.File, error) { return createSealed(size, unix.MemfdCreate) }

// createSealed is createFile with the system call that makes a memfd.
func createSealed(size int64, memfd func(name string, flags int) (fd int, err error)) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := memfd(memoryName, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = memfd(memoryName, flags)
	}
	if err != nil {
		return createTemporary(size) // before Linux 3.17, or forbidden
	}
	file := os.NewFile(uintptr(fd), memoryName)
	if err := file.Truncate(size); err != nil {
		file.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// systemClock returns the clock on which Go's monotonic clock is based.
func systemClock() (nanoseconds int64, known bool) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // never fails: Go uses the same clock
	return int64(time.Duration(now.Sec)*time.Second) + int64(now.Nsec), true
}
