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

// Default returns the process's segment. Most programs use this one. The first
// call decides which segment it is:
//   - in a worker that a prefork master has started, the master's segment. Default
//     looks for it among the descriptors that the worker inherited, and recognises
//     it by its contents and by the parent's process id in it. This works from the
//     first line of main on, and in the initialisation of package variables;
//   - otherwise a new segment with the sizes of zero [Options]. A prefork master
//     passes it to its workers; a single process uses it alone.
//
// Use [Setup] for other sizes. Default never fails: if the system provides no
// shared memory, the segment is local (see [Segment.IsShared]).
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
	// ending may have the last one.
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

// Setup is [Default] with sizes that the program chooses. It uses options only if
// the process has no default segment yet and is not a worker; a worker gets the
// master's segment with the master's sizes. Call Setup first in main, in all
// processes. Errors are those of [New].
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

// SetDefault sets the segment that [Default] returns. Values that were taken from
// another segment before continue to use that segment.
func SetDefault(s *Segment) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.segment.Store(s)
}

// Adopt makes the segment in file the default of this process, unless it is the
// default already, and returns it. Prefork calls Adopt in each worker, with the
// file that the master passed.
//
// If the process had another default segment before, the error is [ErrLate], and
// the returned segment is usable. This happens if Default did not recognise the
// master's segment because the master is not this process's parent. If all places
// are taken, Adopt waits up to ten seconds for one. Other errors are those of
// [Attach]. The caller keeps ownership of file, and may close it after the call.
func Adopt(file *os.File) (*Segment, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	before := process.segment.Load()
	if before != nil && before.isIn(file) { // a second place may not be free
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
