//go:build linux && (amd64 || arm64)

package core

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"golang.org/x/sys/unix"
)

// A wholeSource reads when a message has arrived in whole.
type wholeSource struct {
	countingSource
	size atomic.Int64 // that is waited for, once; 0: nothing
}

func (s *wholeSource) Recv(fd int, p []byte) (int, syscall.Errno) {
	for size := s.size.Swap(0); size > 0; runtime.Gosched() {
		if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err != nil || int64(n) >= size {
			break
		}
	}
	return s.countingSource.Recv(fd, p)
}

// receivers is an Acceptor. Its protocols are Receivers, sleep between two messages, and answer
// each with its checksum. A message is its length in 4 bytes, and that many bytes.
type receivers struct {
	*echoAcceptor
	targets chan engine.Target
}

func (a receivers) Open(c engine.Conn) (engine.Protocol, []byte) {
	a.targets <- c.Target()
	return &receiver{}, nil
}
func (a receivers) Wake(c engine.Conn, _ engine.Memo) engine.Protocol { return &receiver{} }

type receiver struct {
	echo
	message []byte // what has arrived
	sum     uint32
}

var _ engine.Receiver = (*receiver)(nil)

func (r *receiver) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanReceive }
func (r *receiver) Room() []byte                      { return r.message[len(r.message):cap(r.message)] }
func (r *receiver) Pause() bool                       { return r.message == nil }
func (r *receiver) Sleep() (engine.Memo, bool)        { return engine.Memo{}, true }
func (r *receiver) Closed(error)                      {}

func (r *receiver) Feed(in []byte) (int, engine.Next) {
	whole := in[min(4, len(in)):]
	switch {
	case r.message != nil:
		r.message = r.message[:len(r.message)+len(in)]
		whole = r.message
	case int(binary.BigEndian.Uint32(in)) > len(whole):
		r.message = append(make([]byte, 0, binary.BigEndian.Uint32(in)), whole...)
	}
	if len(whole) < cap(r.message) {
		return len(in), engine.Read
	}
	r.sum, r.message = crc32.ChecksumIEEE(whole), nil
	return len(in), engine.Run
}

func (r *receiver) Run(out []byte) ([]byte, engine.Next) {
	return strconv.AppendUint(out, 1e10+uint64(r.sum), 10), engine.Read
}

// A message that the input buffer does not hold takes three reads: one into the buffer, one for
// the rest, and one that finds nothing. The next ones take one read, on any connection, until
// one comes that the input buffer holds.
func TestWideInput(t *testing.T) {
	source := &wholeSource{countingSource: countingSource{pollSource: newPollSource()}}
	ln := listen(t)
	targets := make(chan engine.Target, 2)
	d := serveOver(t, source, ln, receivers{newEcho(), targets}, engine.Options{ReadBufferSize: 2 << 10, Loops: 1, MaxWorkers: 1})
	conns := []net.Conn{dial(t, ln), dial(t, ln)}
	all := []engine.Target{<-targets, <-targets}
	const short, fits, long, longer = 100, 2<<10 - 4, 2<<10 - 3, 40_000
	for i, step := range []struct {
		size  int
		reads [2]int64 // of each connection
	}{
		{short, [2]int64{1, 1}},
		{fits, [2]int64{2, 2}}, // it fills the buffer, so there may be more
		{long, [2]int64{3, 1}},
		{longer, [2]int64{1, 1}},
		{short, [2]int64{1, 1}},
		{longer, [2]int64{3, 1}},
		{fits, [2]int64{1, 2}},
		{longer, [2]int64{3, 1}},
	} {
		message := binary.BigEndian.AppendUint32(nil, uint32(step.size))
		for range step.size {
			message = append(message, byte(rand.IntN(256)))
		}
		for j, c := range conns {
			eventually(t, "the connections are idle", func() bool { return d.Stats() == engine.Stats{Open: 2} })
			before := source.calls().reads
			source.size.Store(int64(len(message)))
			send(t, c, string(message))
			expect(t, c, strconv.FormatUint(1e10+uint64(crc32.ChecksumIEEE(message[4:])), 10))
			eventually(t, "the connections are idle", func() bool { return d.Stats() == engine.Stats{Open: 2} })
			if reads := source.calls().reads - before; reads != step.reads[j] {
				t.Errorf("step %d, connection %d: %d bytes took %d reads, want %d", i, j, step.size, reads, step.reads[j])
			}
		}
		d.Cast(all, []byte("cast"), func(int) { t.Error("a connection is not idle") })
		for _, c := range conns {
			expect(t, c, "cast")
		}
	}
}
