//go:build linux && (amd64 || arm64)

package core

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A livelySource has more input for a connection after each read that has emptied the socket.
type livelySource struct {
	*pollSource
	refill atomic.Pointer[func(fd int)] // for the next time; nil: nothing comes
}

func (s *livelySource) Recv(fd int, p []byte) (int, syscall.Errno) {
	n, errno := s.pollSource.Recv(fd, p)
	if refill := s.refill.Load(); refill != nil && 0 < n && n < len(p) {
		(*refill)(fd)
	}
	return n, errno
}

// uploads is an Acceptor. A message is its length in 4 bytes, and that many bytes. Its first byte
// names it: the handler of 'g' waits, and 'u' is the upload.
type uploads struct {
	*echoAcceptor
	gate  chan struct{}
	order chan byte
	fd    *atomic.Int64 // of the upload
}

func (a uploads) Open(c engine.Conn) (engine.Protocol, []byte) { return a.Wake(c, engine.Memo{}), nil }
func (a uploads) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	return &upload{echo: *a.echoAcceptor.Wake(c, m).(*echo), uploads: a}
}

type upload struct {
	echo
	uploads
	name byte
	rest int // what has not arrived; 0: all has
}

func (u *upload) Feed(in []byte) (int, engine.Next) {
	if u.rest == 0 {
		u.rest, u.name = 4+int(binary.BigEndian.Uint32(in)), in[4]
		if u.name == 'u' {
			u.fd.Store(int64(u.conn.(*conn).fd))
		}
	}
	if u.rest -= len(in); u.rest > 0 {
		return len(in), engine.Read
	}
	return len(in), engine.Run
}

func (u *upload) Run(out []byte) ([]byte, engine.Next) {
	u.order <- u.name
	if u.name == 'g' {
		<-u.gate
	}
	return append(out, u.name), engine.Read
}

func (u *upload) Pause() bool                { return u.rest == 0 }
func (u *upload) Sleep() (engine.Memo, bool) { return engine.Memo{}, false }
func (u *upload) Closed(error)               {}

// What a peer goes on to send while a large message is read belongs to the same turn: otherwise each
// part of it, as large as the socket's buffer, would wait for all handlers that are queued.
func TestUploadIsReadInOneTurn(t *testing.T) {
	const buffer, parts = 2 << 10, 8
	source := &livelySource{pollSource: newPollSource()}
	ln, a := listen(t), uploads{newEcho(), make(chan struct{}), make(chan byte, 3), new(atomic.Int64)}
	d := serveOver(t, source, ln, a, engine.Options{ReadBufferSize: buffer, Loops: 1, MaxWorkers: 1})
	part := strings.Repeat("u", buffer+buffer/2)
	slow, large, other := dial(t, ln), dial(t, ln), dial(t, ln)
	send(t, large, string(binary.BigEndian.AppendUint32(nil, uint32(1+parts*len(part))))+"u")
	queued := func() int { return d.Loops()[0].Queued }
	eventually(t, "the message has begun", func() bool { return a.fd.Load() > 0 && queued() == 0 })
	send(t, slow, "\x00\x00\x00\x01g")
	order := []byte{<-a.order}
	send(t, large, part)
	eventually(t, "the upload is queued", func() bool { return queued() == 1 })
	send(t, other, "\x00\x00\x00\x01s")
	eventually(t, "the small request is queued", func() bool { return queued() == 2 })
	sent := 1
	refill := func(fd int) {
		if sent == parts || int64(fd) != a.fd.Load() {
			return
		}
		sent++
		send(t, large, part)
		for n := 0; n < len(part); {
			n, _ = unix.IoctlGetInt(fd, unix.TIOCINQ)
		}
	}
	source.refill.Store(&refill)
	close(a.gate)
	order = append(order, <-a.order, <-a.order)
	if string(order) != "gus" {
		t.Errorf("the order of the requests is %q, want %q", order, "gus")
	}
}
