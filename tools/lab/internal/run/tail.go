//go:build linux

// Package run is the lab's coordinator: it starts the processes of a plan, has
// them connect and send, measures, and leaves nothing behind.
package run

import (
	"bytes"
	"sync"
)

// A tail keeps the end of what a process has written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

// String returns the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
