//go:build !linux

package files

import "os"

// currentStamp returns the stamp of an open file. isLinked reports whether the file
// still has a name. ok is false if this is unknown.
func currentStamp(f *os.File) (now stamp, isLinked, ok bool) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, false, false
	}
	return stampOf(info), true, true
}
