package http2

import "github.com/sluicehttp/sluice/internal/wire/h2"

// rememberedStreams is of how many of the newest streams it is known how they have ended.
const rememberedStreams = 2048

// An ending is how a stream has ended, which says what a late frame on it means (RFC 9113
// section 5.1).
type ending uint8

const (
	endedByBoth ending = iota // END_STREAM was sent and received: the peer sends nothing more
	endedByUs                 // it was reset or not accepted; the peer may not have known
	endedByPeer               // the peer has reset it, and sends nothing more
	neverBegun                // its number was skipped
)

const (
	endingBits     = 2
	endingMask     = 1<<endingBits - 1
	endingsPerWord = 64 / endingBits
)

// endings are those of the streams that have ended. The zero value knows no stream.
type endings struct {
	bits   [rememberedStreams / endingsPerWord]uint64 // a ring, by the number of the stream
	newest uint32
}

// open notes that newest is the peer's newest stream. Those between are closed.
func (e *endings) open(newest uint32) {
	skipped := min((newest-e.newest-1)/2, rememberedStreams-1)
	e.newest = newest
	e.set(newest, endedByBoth)
	for id := newest - 2; skipped > 0; skipped-- {
		e.set(id, neverBegun)
		id -= 2
	}
}

// forget makes all streams up to newest unknown.
func (e *endings) forget(newest uint32) {
	for i := range e.bits {
		e.bits[i] = ^uint64(0) / endingMask * uint64(endedByUs)
	}
	e.newest = newest
}

func (e *endings) set(id uint32, how ending) {
	word, shift := e.place(id)
	*word = *word&^(endingMask<<shift) | uint64(how)<<shift
}

// of returns how a stream has ended: endedByUs if it is too old to be known, so that late
// frames are ignored.
func (e *endings) of(id uint32) ending {
	if (e.newest-id)/2 >= rememberedStreams {
		return endedByUs
	}
	word, shift := e.place(id)
	return ending(*word >> shift & endingMask)
}

func (e *endings) place(id uint32) (word *uint64, shift uint32) {
	n := id / 2
	return &e.bits[n/endingsPerWord%uint32(len(e.bits))], n % endingsPerWord * endingBits
}

// afterEnd handles DATA or HEADERS on a stream that has ended. What is to be ignored has
// neither result; with refuse, the peer is told, once.
func (c *Conn) afterEnd(id uint32, isHead bool) (refuse, err *h2.Error) {
	switch how := c.endings.of(id); {
	case how == endedByUs:
		return nil, nil
	case how == endedByPeer:
		return h2.ErrStreamClosed, nil
	case how == neverBegun && isHead:
		return nil, h2.ErrStreamOrder
	}
	return nil, h2.ErrClosedStream
}

// refuseStream resets a stream of which there is no Stream, or which has ended.
func (c *Conn) refuseStream(id uint32, err *h2.Error) {
	c.sendReset(id, err.Code)
	c.endings.set(id, endedByUs)
}
