//go:build linux && (amd64 || arm64)

package core

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

var _ compact.Carrier = (*tlsConn)(nil)

// A tlsConn is the TLS state of a connection, and the net.Conn below its tls.Conn.
// During the handshake and during a Run its reads and writes wait. Otherwise, a read
// without input returns errWouldBlock, which a tls.Conn does not remember, and a
// write without room leaves the rest in pending. An incomplete record stays in the
// tls.Conn.
type tlsConn struct {
	session     tlsSession
	compact     *compact.Conn      // session, if it is one; then it cools down: see cooler
	handshake   *compact.Handshake // sees a handshake after which it may be compact
	conn        *conn              // while a worker serves the connection, or it waits with a conn
	driver      *driver
	serving     *serving
	view        *tlsNetConn // the result of NetConn; nil: not called
	under       net.Conn    // the socket, after the connection was detached
	pending     []byte      // records for which there was no room
	hello       []byte      // of the ClientHello, in the worker's buffer, not read by the handshake
	ahead       []byte      // received in the handshake, and not read by the tls.Conn
	handshakeBy int64       // deadline, while in the handshake; 0: none
	fd          int32
	gen         uint32
	usedIn      uint32 // the round of the cooler in which it last began to wait
	isCooling   bool   // the cooler knows it
	isBrief     bool   // it was cold for long, or woke at a deadline: it will be cold at once
	waits       bool
	isDrained   bool // the last read of the socket left nothing in it
	more        bool // what is sent may share a packet with what follows at once
}

// A tlsSession is TLS over a tlsConn: a *tls.Conn or a *compact.Conn.
type tlsSession interface {
	net.Conn
	CloseWrite() error
}

// A tlsStater says what was agreed on in the handshake.
type tlsStater interface{ ConnectionState() tls.ConnectionState }

// stater returns what outlives the connection.
func (s *tlsConn) stater() tlsStater {
	if s.compact != nil {
		return s.compact.Facts()
	}
	return s.session.(*tls.Conn)
}

// errWouldBlock is temporary, so that the tls.Conn can continue after it.
var errWouldBlock net.Error = wouldBlock{}

type wouldBlock struct{}

// Error implements error.
func (wouldBlock) Error() string { return "sluice: no input yet" }

// Timeout implements net.Error.
func (wouldBlock) Timeout() bool { return false }

// Temporary implements net.Error.
func (wouldBlock) Temporary() bool { return true }

// newTLSConn gives c a tlsConn. The caller sets its session.
func (c *conn) newTLSConn() *tlsConn {
	s := &tlsConn{conn: c, driver: c.driver, serving: c.serving, fd: int32(c.fd), gen: c.gen}
	c.tlsConn = s
	c.place.setTLSConn(s)
	return s
}

// handshake makes the TLS handshake, waiting on the worker's goroutine.
func (c *conn) handshake() (err error) {
	s := c.newTLSConn()
	s.waits, s.handshakeBy = true, c.readDeadline()
	config := c.serving.config
	if l := c.serving.compact; l != nil {
		config, s.handshake = l.Config(), l.Begin()
	}
	shaking := tls.Server(s, config)
	defer func() { err = cmp.Or(err, s.endHandshake(shaking)) }()
	s.session = shaking
	d, fd, gen := c.driver, c.fd, c.gen
	over := d.handshakes.Begin(func() { d.kill(fd, gen) })
	defer func() { err = cmp.Or(over(), err) }()
	// Peers may be slow, and MaxWorkers does not limit handshakes.
	w := c.worker
	w.loop.queue.Exempt(1)
	defer w.loop.queue.Exempt(-1)
	s.receiveHello()
	err = shaking.Handshake()
	s.hello = nil // of a handshake that has failed
	c.attach(w)
	s.waits, s.handshakeBy = false, 0
	c.SetReadDeadline(0, 0)
	// Input that came with the client's last flight is in the tls.Conn already. The
	// first turn reads before it waits.
	return err
}

// receiveHello receives the ClientHello, which is there, with one call: crypto/tls would read
// its beginning first. An end, or an error, comes again.
func (s *tlsConn) receiveHello() {
	c := s.conn
	n, _ := s.driver.source.Recv(c.fd, c.In)
	s.isDrained = 0 < n && n < len(c.In)
	if s.hello = c.In[:n]; n == 0 {
		c.releaseBuffers()
	}
}

// readHello reads what receiveHello has received. The end of it is read before the handshake
// waits, because the client's next messages answer the server's.
func (s *tlsConn) readHello(p []byte) int {
	n := copy(p, s.hello)
	if s.hello = s.hello[n:]; len(s.hello) == 0 {
		s.conn.releaseBuffers()
	}
	return n
}

// CompactHandshake implements compact.Carrier.
func (s *tlsConn) CompactHandshake() *compact.Handshake { return s.handshake }

// endHandshake makes the connection compact, if it can be. Nothing of the peer's is in the
// tls.Conn then, and nothing was sent but the handshake.
func (s *tlsConn) endHandshake(shaking *tls.Conn) error {
	if s.handshake == nil {
		return nil
	}
	c, ahead, err := s.handshake.End(shaking, s)
	s.handshake, s.ahead = nil, ahead
	if c == nil {
		return err
	}
	s.setCompact(c)
	s.conn.slot().take(flagStays)
	buf.LetGo(tlsMemory)
	return nil
}

// setCompact makes the connection, which was not, a compact one.
func (s *tlsConn) setCompact(c *compact.Conn) {
	s.session, s.compact = c, c
	s.conn.loop.compact.Add(1)
}

// isBetween reports whether nothing of a record has come that was not used, and all is sent.
func (s *tlsConn) isBetween() bool {
	return len(s.pending) == 0 && len(s.ahead) == 0 && s.compact.CanPause()
}

// pack returns what adoptTLS needs in another process. Nothing can be read or written any
// more.
func (s *tlsConn) pack() []byte {
	var state tls13.State
	facts := s.compact.Pause(&state)
	defer state.Erase()
	defer facts.Drop()
	return facts.Append(nil, &state)
}

// adoptTLS gives c the TLS state of a connection of another process.
func (c *conn) adoptTLS(packed []byte) error {
	defer clear(packed)
	state, facts, err := c.driver.tlsFacts.Parse(packed)
	if err != nil {
		return err
	}
	s := c.newTLSConn()
	session, err := compact.NewConn(s, &state, facts)
	s.setCompact(session) // also after an error it ends with c
	return err
}

// receive reads without waiting. It returns 0 and no error if there is no input.
func (s *tlsConn) receive(p []byte) (int, error) {
	n, err := s.session.Read(p)
	switch {
	case n > 0:
		return n, nil
	case err == errWouldBlock:
		return 0, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, io.ErrUnexpectedEOF
	}
	return 0, err
}

// flushTLS is Flush for a TLS connection. If that ends, the closing alert follows.
func (c *conn) flushTLS(then engine.Next) bool {
	s := c.tlsConn
	s.waits = false
	s.more = then.Closes()
	if !s.drain() {
		return c.isBlocked() // or it failed
	}
	if len(c.Out) > longOutput {
		c.beginStall() // also where it never blocks
	}
	if len(c.Out) > 0 {
		_, err := s.session.Write(c.Out)
		c.keepGrown(c.worker)
		c.Out = c.Out[:0]
		if err != nil {
			c.Fail(err)
			return false
		}
		if len(s.pending) > 0 {
			c.block(false)
			return true
		}
	}
	if c.hasFile() && !c.flushFile() {
		return c.isBlocked() // or it failed
	}
	s.pending = nil
	c.written()
	if then == engine.EndOutput {
		s.sayGoodbye()
		s.pending = nil
		sock.CloseWrite(c.fd)
	}
	return true
}

// drain writes the pending records. The result false means that a part remains,
// because there is no room (isBlocked is true), or that writing failed.
func (s *tlsConn) drain() bool {
	c := s.conn
	for restarts := false; len(s.pending) > 0; {
		n, errno := c.driver.source.Send(c.fd, s.pending, false)
		s.pending = s.pending[n:]
		restarts = restarts || n > 0 && c.hasFile()
		switch errno {
		case 0:
		case syscall.EAGAIN:
			c.block(restarts)
			return false
		default:
			c.wait = waitInput
			c.Fail(os.NewSyscallError("send", errno))
			return false
		}
	}
	return true
}

// writeBuffers is WriteBuffers for TLS: small buffers share a record.
func (s *tlsConn) writeBuffers(v *net.Buffers) (int64, error) {
	gather := buf.Get(gatherSize)
	defer gather.Release()
	var written int64
	for len(*v) > 0 {
		n, err := s.session.Write(engine.NextPiece(gather.B[:0], v, gatherSize))
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// sayGoodbye sends the closing alert, if there is room.
func (s *tlsConn) sayGoodbye() {
	s.waits, s.more = false, false
	_ = s.session.CloseWrite()
	if len(s.pending) > 0 {
		_, _ = s.driver.source.Send(s.conn.fd, s.pending, false)
	}
}

// Read implements net.Conn for the tls.Conn.
func (s *tlsConn) Read(p []byte) (int, error) {
	switch {
	case len(s.ahead) > 0:
		n := copy(p, s.ahead)
		if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
			s.ahead = nil
		}
		return n, nil
	case s.under != nil:
		return s.under.Read(p)
	case s.conn == nil:
		return 0, net.ErrClosed // the caller is not the tls.Conn
	case s.handshake != nil:
		return s.handshake.Read(p, s.recvWaiting)
	case s.waits:
		return s.recvWaiting(p)
	case s.isEmpty():
		return 0, errWouldBlock
	}
	n, errno := s.driver.source.Recv(s.conn.fd, p)
	s.isDrained = 0 < n && n < len(p)
	switch {
	case n > 0:
		return n, nil
	case errno == 0:
		return 0, io.EOF
	case errno == syscall.EAGAIN:
		return 0, errWouldBlock
	}
	return 0, os.NewSyscallError("recv", errno)
}

// isEmpty reports whether there is nothing to receive, as far as that is known.
func (s *tlsConn) isEmpty() bool {
	return s.isDrained && !s.conn.slot().has(flagInput|flagGone) // as in pump
}

// recvWaiting reads from the socket, or of the ClientHello, and waits for input.
func (s *tlsConn) recvWaiting(p []byte) (int, error) {
	if len(s.hello) > 0 {
		return s.readHello(p), nil
	}
	c := s.conn
	if s.isEmpty() {
		s.isDrained = false
		if err := c.awaitInput(); err != nil {
			return 0, err
		}
	}
	n, err := c.recvWaiting(p)
	c.isDrained, s.isDrained = false, 0 < n && n < len(p) // the session may hold more
	return n, err
}

// Write implements net.Conn for the tls.Conn.
func (s *tlsConn) Write(p []byte) (int, error) {
	switch {
	case s.under != nil:
		return s.under.Write(p)
	case s.conn == nil:
		return 0, net.ErrClosed
	case s.handshake != nil && s.handshake.Withholds(p):
		return len(p), nil
	case s.waits:
		return s.writeWaiting(p)
	}
	sent := 0
	for sent < len(p) && len(s.pending) == 0 {
		n, errno := s.driver.source.Send(s.conn.fd, p[sent:], s.more)
		sent += n
		if errno == syscall.EAGAIN {
			break
		}
		if errno != 0 {
			return sent, os.NewSyscallError("send", errno)
		}
	}
	s.pending = append(s.pending, p[sent:]...)
	return len(p), nil
}

// writeWaiting writes the pending records and p.
func (s *tlsConn) writeWaiting(p []byte) (int, error) {
	if len(s.pending) > 0 {
		if _, err := s.conn.sendWaiting(s.pending); err != nil {
			return 0, err
		}
		s.pending = nil
	}
	return s.conn.sendWaiting(p)
}

// socket returns a view of the connection. User code may have retained s from the
// tls.ClientHelloInfo, and may use it after the connection's end.
func (s *tlsConn) socket() *netConn {
	n := &netConn{driver: s.driver, serving: s.serving, fd: s.fd, gen: s.gen}
	if p := s.driver.table.find(int(n.fd)); p.chunk != nil && p.slot().hold(n.gen) {
		n.remote, n.proxied = p.slot().remote(), p.proxied()
		p.slot().drop()
	}
	return n
}

// Close implements net.Conn. The engine closes the socket.
func (s *tlsConn) Close() error {
	if s.under != nil {
		return s.under.Close()
	}
	return s.socket().Close()
}

// CloseWrite closes the sending side of a detached connection.
func (s *tlsConn) CloseWrite() error {
	if half, ok := s.under.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errEngineReads
}

// LocalAddr implements net.Conn.
func (s *tlsConn) LocalAddr() net.Addr {
	if s.under != nil {
		return s.under.LocalAddr()
	}
	return s.socket().LocalAddr()
}

// RemoteAddr implements net.Conn.
func (s *tlsConn) RemoteAddr() net.Addr {
	if s.under != nil {
		return s.under.RemoteAddr()
	}
	return s.socket().RemoteAddr()
}

// Proxied returns what a proxy has said of the connection; see engine.ProxiedBy.
func (s *tlsConn) Proxied() (said *engine.Proxied, by net.Addr) {
	if s.under != nil {
		return engine.ProxiedBy(s.under)
	}
	return s.socket().Proxied()
}

// SetDeadline implements net.Conn.
func (s *tlsConn) SetDeadline(t time.Time) error {
	if s.under != nil {
		return s.under.SetDeadline(t)
	}
	return nil // the engine has its own deadlines
}

// SetReadDeadline implements net.Conn.
func (s *tlsConn) SetReadDeadline(t time.Time) error {
	if s.under != nil {
		return s.under.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *tlsConn) SetWriteDeadline(t time.Time) error {
	if s.under != nil {
		return s.under.SetWriteDeadline(t)
	}
	return nil
}
