package harness

import (
	"bytes"
	"fmt"
	"sync"
)

type QuietLogger struct{}

func (QuietLogger) Printf(string, ...any) {}

// LogBook is a Logger that keeps what it is told.
type LogBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *LogBook) Printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(&b.text, format+"\n", args...)
}

func (b *LogBook) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

func (b *LogBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
