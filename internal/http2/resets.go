package http2

// resets are the streams that were reset by us lately. The peer may have sent frames
// before it learned of that, which are ignored (RFC 9113 section 5.1).
type resets struct {
	ids  [64]uint32
	next uint8
}

func (r *resets) add(id uint32) {
	r.ids[r.next%uint8(len(r.ids))] = id
	r.next++
}

func (r *resets) has(id uint32) bool {
	for _, known := range r.ids {
		if known == id {
			return true
		}
	}
	return false
}
