package supervise

import (
	"errors"
	"os"
)

// Stream passes an end of a new stream to the worker of a slot and generation, for its
// AttachOptions.OnStream, and returns the other end, which the caller owns. It does not wait
// until the worker takes it. If the worker ends, or has no OnStream, the stream ends. The
// error is ErrNoWorker, ErrSilent, or one of the system. Systems other than Linux have
// no streams: ErrDetached.
func (m *Master) Stream(slot, generation int) (*os.File, error) {
	p := m.spawner.find(key{slot, generation})
	if p == nil {
		return nil, ErrNoWorker
	}
	end, err := p.pass(messageStream)
	switch {
	case errors.Is(err, errLinkFull):
		return nil, ErrSilent
	case end == nil && err == nil:
		return nil, ErrNoWorker
	}
	return end, err
}
