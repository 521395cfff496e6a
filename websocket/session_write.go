package websocket

import (
	"math"
	"net"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// beginFlush lets another goroutine write the output of a call that is still running,
// because it has become much. The lock is held, and run is running.
func (s *session) beginFlush() {
	out, written := s.out, len(s.out)-s.counted
	s.out, s.counted = nil, 0
	s.run = flushing
	s.count(0, written)
	go s.flush(out)
}

// flush writes out, and then what waits in the outbox, until that is empty or the call is
// about to return. Nothing else uses the engine's Conn meanwhile: the call of the engine
// is in a callback, or waits in leave.
func (s *session) flush(out []byte) {
	mu := s.conn.lock()
	for {
		_, err := s.engine.Write(out)
		mu.Lock()
		s.wrote(out, err)
		if s.conn.more.pending == nil || s.flushed != nil || s.ending == endAbort {
			break
		}
		s.take(flushSize)
		out = s.out
		s.out = nil
		s.count(0, len(out))
		mu.Unlock()
	}
	s.endFlush()
	mu.Unlock()
}

// endFlush ends flushing; the lock is held.
func (s *session) endFlush() {
	s.run = running
	if s.flushed != nil {
		close(s.flushed)
		s.flushed = nil
	}
}

// minDirect is the size of a payload that is sent from where it is. Smaller ones are
// copied, so that several are sent with one system call.
const minDirect = 16 << 10

// direct is what sendNow passes to the engine.
type direct struct {
	head   [ws.MaxHead]byte
	pieces [3][]byte
	left   net.Buffers
}

// sendNow sends the output and then a frame, as far as they go without waiting, so that p
// is not copied. The rest becomes output. run is running; the lock is held, but not while
// the engine writes.
func (s *session) sendNow(h ws.Head, p []byte) {
	out, d := s.out, directPool.Get().(*direct)
	h.IsFinal, h.Length = true, int64(len(p))
	d.pieces = [...][]byte{out, ws.AppendHead(d.head[:0], h), p}
	d.left = d.pieces[:]
	size := len(out) - s.counted + len(d.pieces[1]) + len(p)
	s.out, s.counted, s.run = nil, 0, flushing
	mu := s.conn.lock()
	mu.Unlock()
	s.count(0, size)
	s.engine.WriteReady(&d.left)
	mu.Lock()
	later := s.out // pongs
	s.out = out[:0]
	for _, rest := range d.left {
		s.out = append(s.out, rest...)
	}
	s.counted = len(s.out)
	s.out = append(s.out, later...)
	s.take(math.MaxInt) // what other goroutines have written meanwhile
	*d = direct{}
	directPool.Put(d)
	s.conn.more.makeRoom()
	s.endFlush()
}

// wrote ends a write of out during a call. The lock is held.
func (s *session) wrote(out []byte, err error) {
	if s.out == nil {
		s.out = out[:0]
	}
	if err != nil {
		s.note(err)
		s.end(endAbort)
	}
	s.conn.more.makeRoom()
}
