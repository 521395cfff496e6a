package files

import (
	"os"
	"syscall"
)

// currentStamp returns the stamp of an open file, without the allocations of
// File.Stat. isLinked reports whether the file still has a name. ok is false if this is
// unknown.
func currentStamp(f *os.File) (now stamp, isLinked, ok bool) {
	var st syscall.Stat_t
	for {
		err := syscall.Fstat(int(f.Fd()), &st)
		if err == syscall.EINTR {
			continue
		}
		return stamp{st.Size, st.Mtim.Nano()}, st.Nlink > 0, err == nil
	}
}
