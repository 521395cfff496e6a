package sse

import (
	"bufio"
	"io"
	"time"

	"github.com/sluicehttp/sluice"
)

// A bell is the engine.Prompter of a stream with a goroutine.
type bell chan struct{}

// Prompt implements engine.Prompter.
func (b bell) Prompt() {
	select {
	case b <- struct{}{}:
	default: // it has rung, and the goroutine has not heard it yet
	}
}

// writer returns the StreamWriter of a stream that no engine serves. gone is closed when the
// client is gone, or the server shuts down.
func (h *Hub) writer(o opening, gone <-chan struct{}) sluice.StreamWriter {
	return func(w *bufio.Writer) {
		rings := make(bell, 1)
		s := &stream{form: formRaw, more: &rare{prompter: rings}}
		h.mu.Lock()
		text := h.join(s, o)
		index := uint32(h.streams)
		h.mu.Unlock()
		h.end(s, h.write(s, w, text, h.heartbeat(index), rings, gone))
	}
}

// write writes text and then events, until the stream ends. It returns why.
func (h *Hub) write(s *stream, w *bufio.Writer, text []byte, beat time.Duration, rings bell, gone <-chan struct{}) error {
	var beats <-chan time.Time
	if beat > 0 {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		beats = ticker.C
	}
	out, done := text, caughtUp
	for {
		h.mu.Lock()
		out, done = h.take(s, out, flushSize)
		h.mu.Unlock()
		_, err := w.Write(out)
		if err == nil {
			err = w.Flush()
		}
		out = out[:0]
		switch {
		case err != nil:
			return err
		case done == hasLost:
			return ErrSlow
		case done == hasMore:
			continue
		}
		select {
		case <-rings:
		case <-beats:
			out = append(out, comment...)
		case <-gone:
			_, _ = w.Write(h.farewell())
			_ = w.Flush()
			return io.EOF
		}
	}
}
