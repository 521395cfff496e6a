package supervise

import (
	"fmt"
	"sync"
	"time"
)

const (
	// journalLines and journalBytes bound what waits to be written. A line that is
	// longer than all of that is taken if nothing else waits.
	journalLines = 1024
	journalBytes = 1 << 20
	// journalPatience bounds the wait for the last lines at the end of a process.
	journalPatience = 500 * time.Millisecond
)

// A Journal is a Logger that never blocks: it passes its lines to another Logger
// on a separate goroutine. A log without a reader, such as a full pipe, would
// otherwise block its writers. Lines for which there is no room are dropped and
// counted. When the Logger accepts lines again, the log says how many were dropped.
//
// Its methods may be called concurrently.
type Journal struct {
	to Logger

	mu      sync.Mutex
	lines   []string
	size    int           // of lines, in bytes
	gap     int           // lines that were dropped since the last one in lines
	dropped int           // lines that were ever dropped
	idle    chan struct{} // closed when everything is written; nil: it is
}

// NewJournal returns a Journal that writes to l, or l itself if it is one.
func NewJournal(l Logger) *Journal {
	if j, ok := l.(*Journal); ok {
		return j
	}
	return &Journal{to: l}
}

// Printf adds a line, or counts it as dropped.
func (j *Journal) Printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	// After a gap, lines are dropped until the message about it is written.
	// Otherwise that message would be in the wrong place.
	isFull := len(j.lines) == journalLines || len(j.lines) > 0 && j.size+len(line) > journalBytes
	if isFull || j.gap > 0 {
		j.gap++
		j.dropped++
		return
	}
	j.lines = append(j.lines, line)
	j.size += len(line)
	if j.idle == nil {
		j.idle = make(chan struct{})
		go j.write()
	}
}

// write passes lines on until there are no more.
func (j *Journal) write() {
	for {
		j.mu.Lock()
		lines, gap := j.lines, j.gap
		if len(lines) == 0 && gap == 0 {
			close(j.idle)
			j.idle = nil
			j.mu.Unlock()
			return
		}
		if len(lines) == 0 {
			j.gap = 0
		}
		j.mu.Unlock()
		if len(lines) == 0 {
			j.to.Printf("%d lines of the log were dropped: lines were written faster than they were read", gap)
			continue
		}
		j.to.Printf("%s", lines[0])
		j.mu.Lock()
		j.size -= len(lines[0])
		j.lines[0] = ""
		j.lines = j.lines[1:]
		j.mu.Unlock()
	}
}

// Dropped returns the number of lines that were dropped.
func (j *Journal) Dropped() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// Flush waits until everything is written, at most half a second. Call it before
// the process ends.
func (j *Journal) Flush() {
	j.mu.Lock()
	idle := j.idle
	j.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(journalPatience):
	}
}
