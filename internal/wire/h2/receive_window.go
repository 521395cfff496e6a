package h2

// Growth is what the receive windows of one connection share.
type Growth struct {
	// RoundTrip is the time in which credit reaches the peer and makes data arrive.
	RoundTrip RoundTrip
	// Room is by how many bytes the windows together may still grow.
	Room int64
}

// RoundTripPing is the data of the PING of AppendCredit. RoundTrip.End is called when it is
// acknowledged.
var RoundTripPing = [8]byte{'s', 'l', 'u', 'i', 'c', 'e', 'r', 't'}

// AppendCredit appends a WINDOW_UPDATE for w, which is that of stream, 0: of the connection,
// if enough is due; and now and then a PING after it, because windows grow by what arrives
// in a round trip.
func (g *Growth) AppendCredit(dst []byte, stream uint32, w *ReceiveWindow, now int64) []byte {
	increment := w.Update(now, g)
	if increment == 0 {
		return dst
	}
	dst = AppendWindowUpdate(dst, stream, increment)
	if g.RoundTrip.Begin(now) {
		dst = AppendPing(dst, RoundTripPing, false)
	}
	return dst
}

// AppendRoom appends a WINDOW_UPDATE for w, which is that of stream, by which n bytes fit
// into it that are yet to come, as far as its bound and Room allow. It is for bytes that are
// consumed as they arrive: their sender needs not wait until the window has grown in steps.
// If the window would grow by less than its half, nothing changes.
func (g *Growth) AppendRoom(dst []byte, stream uint32, w *ReceiveWindow, n int64) []byte {
	more := min(min(n, int64(w.most))-int64(w.size), g.Room)
	if more < int64(w.size/2) || int64(w.left)+more > maxWindow {
		return dst
	}
	w.resize(w.size+uint32(more), g)
	w.left += int32(more)
	return AppendWindowUpdate(dst, stream, uint32(more))
}

// shrinkRounds and shrinkNanos: a window whose half was not used for so many round trips
// and so many nanoseconds is halved.
const (
	shrinkRounds = 16
	shrinkNanos  = 1_000_000_000
)

// A ReceiveWindow is how many bytes of DATA we permit on a stream or on the connection.
// It grows with the bytes that are consumed in a round trip, and shrinks again. Times
// are nanoseconds of any origin.
type ReceiveWindow struct {
	left    int32  // what the peer may still send; negative after Shift
	held    uint32 // received, not consumed
	size    uint32 // what left and held grow to when credit is returned
	least   uint32 // smallest and largest size
	most    uint32
	updated int64 // when credit was last returned
}

// NewReceiveWindow returns a window of which the peer knows granted bytes: the initial
// window that it has acknowledged. size is what the window shall have, most the bound
// of its growth, at most 2^31-1.
func NewReceiveWindow(now int64, granted, size, most uint32) ReceiveWindow {
	size = min(size, maxWindow)
	return ReceiveWindow{left: int32(min(granted, maxWindow)), size: size, least: size, most: min(max(size, most), maxWindow), updated: now}
}

// Received counts the n bytes of a DATA frame, padding included. ok is false if the
// window does not admit them: ErrWindowExceeded or ErrStreamWindowExceeded.
func (w *ReceiveWindow) Received(n uint32) (ok bool) {
	if int64(n) > int64(w.left) {
		return false
	}
	w.left -= int32(n)
	w.held += n
	return true
}

// Consumed counts n bytes of those received as used or discarded: their credit may be returned.
func (w *ReceiveWindow) Consumed(n uint32) { w.held -= min(n, w.held) }

// Held returns how many bytes were received and not consumed.
func (w *ReceiveWindow) Held() uint32 { return w.held }

// Left returns how many bytes the peer may still send; it may be negative.
func (w *ReceiveWindow) Left() int32 { return w.left }

// Size returns what the window admits when all is consumed.
func (w *ReceiveWindow) Size() uint32 { return w.size }

// Shift handles the acknowledgement of another InitialWindowSize of ours, for an open
// stream (RFC 9113 section 6.9.2). The peer gets what is more without credit, so the size
// of a window that it has not acknowledged is what is in force: else it would get that twice.
func (w *ReceiveWindow) Shift(from, to uint32) {
	by := int64(to) - int64(from)
	w.left = int32(min(int64(w.left)+by, maxWindow))
	if by > 0 {
		w.size, w.least = min(w.size+uint32(by), maxWindow), min(w.least+uint32(by), maxWindow)
		w.most = max(w.most, w.size)
	}
}

// Update returns the increment of the WINDOW_UPDATE that is due, or 0: credit is
// returned when it is half of the window. If this half was used within one round trip,
// the window limits the peer, and doubles.
func (w *ReceiveWindow) Update(now int64, g *Growth) (increment uint32) {
	if w.returnable() < int64(max(w.size/2, 1)) {
		return 0
	}
	elapsed, round := now-w.updated, g.RoundTrip.Nanos()
	w.updated = now
	if round > 0 && elapsed <= round {
		w.resize(w.size+uint32(max(0, min(int64(w.size), int64(w.most-w.size), g.Room))), g)
	} else if elapsed > max(shrinkRounds*round, shrinkNanos) {
		w.resize(max(w.least, w.size/2), g)
	}
	increment = uint32(max(w.returnable(), 0))
	w.left += int32(increment)
	return increment
}

// Shrink gives back what the window has grown: the stream has ended, or the connection
// is idle. The peer keeps the credit that it has.
func (w *ReceiveWindow) Shrink(g *Growth) { w.resize(w.least, g) }

func (w *ReceiveWindow) resize(size uint32, g *Growth) {
	g.Room -= int64(size) - int64(w.size)
	w.size = size
}

// returnable returns the credit that may be returned.
func (w *ReceiveWindow) returnable() int64 { return int64(w.size) - int64(w.left) - int64(w.held) }

// roundTripInterval is the least time between two measurements, in nanoseconds.
const roundTripInterval = 1_000_000_000

// A RoundTrip measures the time between a PING and its acknowledgement. The zero value
// has measured nothing.
type RoundTrip struct {
	began  int64 // the last measurement
	smooth int64
	state  measurement
}

type measurement uint8

const (
	notMeasured measurement = iota
	measuring
	measured
)

// MeasuredRoundTrip returns a RoundTrip that has measured nanos; 0: nothing.
func MeasuredRoundTrip(nanos int64) RoundTrip {
	if nanos == 0 {
		return RoundTrip{}
	}
	return RoundTrip{smooth: nanos, state: measured}
}

// Begin reports whether a PING shall be sent at now, with the next WINDOW_UPDATE. It is
// false while one is under way, and for a second after it began.
func (r *RoundTrip) Begin(now int64) bool {
	if r.state == measuring || r.state == measured && now-r.began < roundTripInterval {
		return false
	}
	r.began, r.state = now, measuring
	return true
}

// End handles the acknowledgement of that PING at now.
func (r *RoundTrip) End(now int64) {
	if r.state != measuring {
		return
	}
	r.state = measured
	sample := max(now-r.began, 1)
	if r.smooth == 0 {
		r.smooth = sample
	}
	r.smooth += (sample - r.smooth) / 8
}

// Nanos returns the smoothed round trip, 0 before the first.
func (r *RoundTrip) Nanos() int64 { return r.smooth }
