//go:build unix

package supervise

import "sync/atomic"

// probes holds the number of the master's latest PING that is not answered yet.
type probes struct {
	latest atomic.Uint32
	wake   chan struct{} // holds a token after latest was set
}

func newProbes() *probes { return &probes{wake: make(chan struct{}, 1)} }

// note records the number of a PING.
func (p *probes) note(seq uint32) {
	p.latest.Store(seq)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// answer sends a PONG for each PING for which OnPing returns nil. It is a goroutine
// of its own, because OnPing may block and orders must not wait for it.
func (w *Worker) answer() {
	wasRefused := false
	for range w.pings.wake {
		seq := w.pings.latest.Load()
		if w.options.OnPing != nil {
			if err := w.options.OnPing(); err != nil {
				if !wasRefused {
					w.options.Logger.Printf("worker %d.%d: the master's probe is not answered: %v", w.Slot(), w.Generation(), err)
				}
				wasRefused = true
				continue
			}
			wasRefused = false
		}
		w.reply(messagePong, seq) // the master treats a lost answer as none
	}
}
