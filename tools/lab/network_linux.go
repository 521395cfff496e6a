package lab

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// enterNetwork executes this program again in a network namespace of its own, if such
// a namespace has a larger table of TCP connections than this one
// (net.ipv4.tcp_child_ehash_entries, in ip-sysctl of the kernel's documentation). It returns nil if it has not. With
// an error, this process is in its old namespace.
func enterNetwork(files system.Files) error {
	l := files.Limits()
	if l.ChildBuckets <= l.Buckets {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	kept := []plan.Setting{
		{Key: "net.core.somaxconn", Value: fmt.Sprint(l.Backlog)},
		{Key: "net.ipv4.ip_local_port_range", Value: fmt.Sprintf("%d %d", l.PortFirst, l.PortLast)},
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: a thread that fails half-way must not be used again
		failed <- execInNetwork(program, kept, files)
	}()
	if err := <-failed; err != nil {
		return fmt.Errorf("no network namespace with a larger table of connections: %w", err)
	}
	return nil
}

// execInNetwork gives the thread a network namespace with some settings, in which it
// executes the program. It returns only with an error.
func execInNetwork(program string, settings []plan.Setting, files system.Files) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	for _, s := range settings {
		if err := files.Apply(s); err != nil {
			return err
		}
	}
	return os.NewSyscallError("execve", unix.Exec(program, os.Args, os.Environ()))
}

// raiseLoopback brings up the interface lo, which is down in a new namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return os.NewSyscallError("ioctl", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return os.NewSyscallError("ioctl", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}
