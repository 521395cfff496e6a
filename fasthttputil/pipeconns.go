package fasthttputil

import (
	"net"
	"time"
)

// PipeConns is a pair of connected net.Conns in memory. Unlike net.Pipe it
// buffers. A Write returns without waiting for a Read in two cases: if fewer than
// four earlier Writes, of any size, are not completely read yet, or if its bytes
// fit the buffer of 64 KiB for each direction.
//
// Create it with NewPipeConns. Both connections may be used by several
// goroutines at once, as net.Conn requires.
type PipeConns struct {
	toConn2, toConn1 pipe
	conn1, conn2     pipeConn
}

// NewPipeConns returns a new pair of connected connections.
func NewPipeConns() *PipeConns {
	pc := &PipeConns{}
	pc.toConn1.init()
	pc.toConn2.init()
	pc.conn1 = pipeConn{in: &pc.toConn1, out: &pc.toConn2, local: pipeAddr{}, remote: pipeAddr{}}
	pc.conn2 = pipeConn{in: &pc.toConn2, out: &pc.toConn1, local: pipeAddr{}, remote: pipeAddr{}}
	return pc
}

// Conn1 returns the first end: what is written to it is read from Conn2. Every
// call returns the same connection.
func (pc *PipeConns) Conn1() net.Conn { return &pc.conn1 }

// Conn2 returns the second end: what is written to it is read from Conn1.
// Every call returns the same connection.
func (pc *PipeConns) Conn2() net.Conn { return &pc.conn2 }

// SetAddresses sets what LocalAddr and RemoteAddr of the two ends return. The
// default is the address "pipe". Call it before the ends are used: it does not
// synchronise with them.
func (pc *PipeConns) SetAddresses(localAddr1, remoteAddr1, localAddr2, remoteAddr2 net.Addr) {
	pc.conn1.local, pc.conn1.remote = localAddr1, remoteAddr1
	pc.conn2.local, pc.conn2.remote = localAddr2, remoteAddr2
}

// Close closes both ends. Close of either end does the same. It always returns
// nil, and may be called more than once.
func (pc *PipeConns) Close() error { return pc.conn1.Close() }

// A pipeConn is one end of a PipeConns.
type pipeConn struct {
	in, out       *pipe
	local, remote net.Addr
}

// Read waits for bytes from the other end. After Close of either end it returns
// the bytes that were written before, and then io.EOF.
func (c *pipeConn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write queues p for the other end and waits only while the buffer is full.
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// IsQuiet reports whether there is nothing to read and the connection is open. A
// client calls it before it reuses an idle connection.
func (c *pipeConn) IsQuiet() bool { return c.in.isQuiet() }

// Close closes both directions and wakes all calls that block on either end.
func (c *pipeConn) Close() error {
	c.out.close()
	c.in.close()
	return nil
}

// LocalAddr returns this end's address.
func (c *pipeConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address.
func (c *pipeConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the read and the write deadline. The zero time means none.
func (c *pipeConn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

// SetReadDeadline sets the time from which blocked and later Reads fail with
// ErrTimeout, even if there is input. The zero time means none.
func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

// SetWriteDeadline sets the time from which blocked and later Writes fail with
// ErrTimeout. The zero time means none.
func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

// pipeAddr is the default address of an end.
type pipeAddr struct{}

// Network returns "pipe".
func (pipeAddr) Network() string { return "pipe" }

// String returns "pipe".
func (pipeAddr) String() string { return "pipe" }
