package prefork

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockPatience bounds the wait for another process that makes a socket in the same folder.
	lockPatience = time.Second
	lockInterval = time.Millisecond
)

// lockFolder keeps other processes from making unix sockets in the folder of path until unlock is
// called. A process that may not read the folder does not wait for the others.
func lockFolder(path string) (unlock func()) {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return func() {}
	}
	for began := time.Now(); unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK && time.Since(began) < lockPatience; {
		time.Sleep(lockInterval)
	}
	return func() { folder.Close() }
}
