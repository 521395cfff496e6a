package http2

// rememberedStreams is how many of the newest streams are known to be reset or not.
const rememberedStreams = 2048

// resets are the streams that were reset or not accepted by us. The peer may have sent
// frames before it learned of that, which are ignored (RFC 9113 sections 5.1 and 6.8).
// The zero value knows no stream.
type resets struct {
	bits   [rememberedStreams / 64]uint64 // a ring, by the number of the stream
	newest uint32
}

// open notes that newest is the peer's newest stream. Those between are closed.
func (r *resets) open(newest uint32) {
	n := min((newest-r.newest+1)/2, rememberedStreams)
	for id := newest; n > 0; n-- {
		*r.word(id) &^= bit(id)
		id -= 2
	}
	r.newest = newest
}

// forget makes all streams up to newest unknown, so that late frames on them are ignored.
func (r *resets) forget(newest uint32) {
	for i := range r.bits {
		r.bits[i] = ^uint64(0)
	}
	r.newest = newest
}

func (r *resets) add(id uint32) { *r.word(id) |= bit(id) }

// has tells whether a frame on the stream, which has ended, is to be ignored. It is if
// the stream is too old to be known.
func (r *resets) has(id uint32) bool {
	return (r.newest-id)/2 >= rememberedStreams || *r.word(id)&bit(id) != 0
}

func (r *resets) word(id uint32) *uint64 { return &r.bits[id/2/64%uint32(len(r.bits))] }

func bit(id uint32) uint64 { return 1 << (id / 2 % 64) }
