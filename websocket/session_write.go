package websocket

import (
	"errors"
	"math"
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// beginFlush lets another goroutine write the output of a call that is still running,
// because it has become much. The lock is held, and run is running.
func (s *session) beginFlush() {
	out, written := s.out, len(s.out)-s.counted
	s.out, s.counted = nil, 0
	s.run = flushing
	s.count(0, written)
	go s.flush(out, 0)
}

// flush writes what follows the first bytes of out, which have gone, and then what waits in
// the outbox, until that is empty or the call is about to return. Nothing else writes to the
// engine's Conn meanwhile: the call of the engine is in a callback, reads for a loop, or waits
// in leave.
func (s *session) flush(out []byte, gone int) {
	mu := s.conn.lock()
	for {
		_, err := s.engine.Write(out[gone:])
		gone = 0
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
	if l := s.loop; l != nil {
		if l.reads != nil {
			_ = l.reads.SetReadDeadline(time.Unix(1, 0))
			l.reads = nil
		}
		l.poke()
	}
}

// sendMeanwhile sends the output of a loop: as much as goes without waiting, and the rest on
// another goroutine, so that the session can read for the loop. run is running; the lock is
// held, but not while the engine writes.
func (s *session) sendMeanwhile() {
	out, d, mu := s.out, directPool.Get().(*direct), s.conn.lock()
	d.pieces[0] = out
	d.left = d.pieces[:1]
	written := len(out) - s.counted
	s.out, s.counted, s.run = nil, 0, flushing
	mu.Unlock()
	s.count(0, written)
	gone := int(s.engine.WriteReady(&d.left))
	*d = direct{}
	directPool.Put(d)
	if gone < len(out) {
		if !s.isCarried { // a stream of HTTP/2 cannot fill
			s.loop.reads = s.engine.Blocking()
		}
		go s.flush(out, gone)
		mu.Lock()
		return
	}
	mu.Lock()
	s.wrote(out, nil)
	s.endFlush()
}

// readMeanwhile sends the output of a loop, and handles input until all is written: the peer
// may be one that reads only when what it sends is read. It stops reading while the loop does
// not ask, and when there are many pongs. It reports whether there was input.
func (s *session) readMeanwhile() (hasRead bool) {
	if s.loop == nil || s.isCarried {
		return false
	}
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	for s.ending == endNot {
		if s.run == running && s.hasOutput() {
			s.sendMeanwhile()
		}
		switch mayRead := len(s.out) < flushSize; {
		case mayRead && len(s.engine.Buffered()) > 0:
			mu.Unlock()
			s.handleInput()
			mu.Lock()
			hasRead = true
		case s.run != flushing:
			return hasRead
		case !mayRead || !s.fill():
			s.awaitFlush()
		}
	}
	return hasRead
}

// writePatience is how long a write may take before the session reads meanwhile, if it is not
// known that the write waits.
const writePatience = 5 * time.Millisecond

// fill waits for input until flushing ends. It is false if there will be none. The lock is
// held, but not while it waits.
func (s *session) fill() bool {
	mu, reads := s.conn.lock(), s.loop.reads
	if reads == nil { // sendNow writes
		return false
	}
	if !s.engine.IsSocket() { // WriteReady writes nothing
		flushed := make(chan struct{})
		s.flushed = flushed
		mu.Unlock()
		timer := time.NewTimer(writePatience)
		select {
		case <-flushed:
		case <-timer.C:
		}
		timer.Stop()
		mu.Lock()
		if s.run != flushing {
			return true
		}
		s.flushed = nil
	}
	_ = reads.SetReadDeadline(time.Time{}) // the time-out of the write bounds the wait
	mu.Unlock()
	err := s.engine.Fill()
	mu.Lock()
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
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
