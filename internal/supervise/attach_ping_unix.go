//go:build unix

package supervise

import "sync/atomic"

// probes are the master's PINGs that nobody has answered yet: the latest counts.
type probes struct {
	latest atomic.Uint32
	wake   chan struct{} // holds a token when latest was set
}

// newProbes returns no probes.
func newProbes() *probes { return &probes{wake: make(chan struct{}, 1)} }

// note takes the number of a PING.
func (p *probes) note(seq uint32) {
	p.latest.Store(seq)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// answer sends a PONG for each PING that OnPing lets pass. It is apart from
// listen because OnPing may take its time, and orders must not wait for it.
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
		w.reply(messagePong, seq) // an answer that is lost is as none
	}
}
