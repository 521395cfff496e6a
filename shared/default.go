package shared

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// process holds the segment that Default returns.
var process struct {
	mu      sync.Mutex // held while segment is being set
	segment atomic.Pointer[Segment]
}

// Default returns the process's segment, and is the one that programs should
// use. The first call decides which it is:
//   - in a worker that was started by a prefork master, the master's. It is found
//     among the descriptors that the worker was started with, by its contents and
//     by the parent's process id in it, so this works from the first line of main
//     on (and in package variables);
//   - otherwise a new one with the sizes of zero [Options], which a prefork master
//     passes to its workers, and which a single process has for itself.
//
// [Setup] asks for other sizes. Default never fails: if the system gives no shared
// memory, the segment is local, which [Segment.IsShared] tells.
func Default() *Segment {
	if s := process.segment.Load(); s != nil {
		return s
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	if s := process.segment.Load(); s != nil {
		return s
	}
	s := firstDefault()
	process.segment.Store(s)
	return s
}

func firstDefault() *Segment {
	if s := inherited(); s != nil {
		return s
	}
	if s, err := New(Options{}); err == nil {
		return s
	}
	return Must(New(Options{Local: true})) // the sizes are known to be good
}

// inherited attaches to the segment of the process's parent, if there is one.
func inherited() *Segment {
	fd := findInherited()
	if fd < 0 {
		return nil
	}
	s, err := awaitPlace(func() (*Segment, error) { return attachDescriptor(uintptr(fd)) })
	if err != nil {
		return nil
	}
	return s
}

const (
	// placePatience bounds the wait for a place in the segment: a worker that is
	// on its way out may have the last one.
	placePatience = 10 * time.Second
	placePause    = 20 * time.Millisecond
)

// awaitPlace calls attach until there is a place.
func awaitPlace(attach func() (*Segment, error)) (*Segment, error) {
	deadline := time.Now().Add(placePatience)
	for {
		s, err := attach()
		if !errors.Is(err, ErrProcesses) || time.Now().After(deadline) {
			return s, err
		}
		time.Sleep(placePause)
	}
}

// Setup is [Default] with sizes of the program's own: they are used if this call
// is the first one to need the default, and if the process is no worker, which
// gets the master's sizes with the master's segment. Call it first in main, in
// all processes alike. Errors are those of [New].
func Setup(options Options) (*Segment, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	if s := process.segment.Load(); s != nil {
		return s, nil
	}
	s := inherited()
	if s == nil {
		var err error
		if s, err = New(options); err != nil {
			return nil, err
		}
	}
	process.segment.Store(s)
	return s, nil
}

// SetDefault makes s what [Default] returns from now on. Values that were taken
// from another segment before stay with that one.
func SetDefault(s *Segment) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.segment.Store(s)
}

// Adopt makes the segment in file the default of this process, unless it is
// already. Prefork calls it in each worker, with the file that the master passed.
// It returns the default. If the process had used another segment as its default
// before, because the one in file was not recognised in time (the master is not
// this process's parent), the error is [ErrLate] and the segment is usable
// nevertheless. If all places are taken, it waits up to ten seconds for one. The
// file stays the caller's, and may be closed.
func Adopt(file *os.File) (*Segment, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	before := process.segment.Load()
	if before != nil && before.isIn(file) { // it has its place, and there may be no other
		return before, nil
	}
	s, err := awaitPlace(func() (*Segment, error) { return Attach(file) })
	if err != nil {
		return nil, err
	}
	process.segment.Store(s)
	if before != nil {
		return s, ErrLate
	}
	return s, nil
}
