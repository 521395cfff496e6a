package h2

// A SendWindow is how many bytes of DATA the peer permits on a stream or on the
// connection (RFC 9113 section 6.9). It is negative after the peer has lowered its
// initial window. A new stream has SendWindow(InitialWindowSize) of the peer's
// Settings, a new connection that of DefaultSettings.
type SendWindow int32

// Add handles WINDOW_UPDATE. ok is false, and the window unchanged, if it would exceed
// 2^31-1: ErrWindowOverflow or ErrStreamWindowOverflow.
func (w *SendWindow) Add(increment uint32) (ok bool) { return w.shift(int64(increment)) }

// Shift handles a change of the peer's InitialWindowSize for an open stream (RFC 9113
// section 6.9.2). ok is false, and the window unchanged, if it would exceed 2^31-1,
// which is an error of the connection: ErrWindowOverflow.
func (w *SendWindow) Shift(from, to uint32) (ok bool) { return w.shift(int64(to) - int64(from)) }

func (w *SendWindow) shift(n int64) (ok bool) {
	n += int64(*w)
	if n > maxWindow || n < -maxWindow {
		return false
	}
	*w = SendWindow(n)
	return true
}

// Take counts n bytes that are sent.
func (w *SendWindow) Take(n int) { *w -= SendWindow(n) }

// MinData is the least room for which the content of another DATA frame is looked for, unless
// that is shorter.
const MinData = 1 << 10
