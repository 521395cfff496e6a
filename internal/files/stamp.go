package files

import (
	"io/fs"
	"os"
	"time"
)

// A stamp identifies a version of a file.
type stamp struct {
	size     int64
	modified int64 // Unix nanoseconds; 0 if the time is unknown
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{info.Size(), nanos(info.ModTime())}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// isSameFile is os.SameFile, but returns true for files of other systems.
func isSameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) || !os.SameFile(a, a) || !os.SameFile(b, b)
}

// doubtWindow is how long after a change another change may get the same time: two
// seconds on the coarsest file systems.
const doubtWindow = 2 * time.Second

// isDoubtful reports whether a file that was just read, and last changed at modified,
// may have changed since without another time or size.
func isDoubtful(modified time.Time) bool {
	return modified.IsZero() || time.Since(modified) < doubtWindow
}

// isSameTime reports whether a copy's time is that of the original, in the resolution
// of the copy's file system: the largest of these units of which the copy's time is a
// multiple.
func isSameTime(original, copied time.Time) bool {
	if original.IsZero() || copied.IsZero() {
		return false
	}
	for _, unit := range [...]int{1e9, 1e6, 1e3, 100} {
		if copied.Nanosecond()%unit == 0 {
			return original.Unix() == copied.Unix() && original.Nanosecond()/unit == copied.Nanosecond()/unit
		}
	}
	return original.Equal(copied)
}
