package fasthttpadaptor

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// hijackBufferSize is the buffer size of the writer that Hijack returns.
const hijackBufferSize = 4 << 10

// Hijack implements http.Hijacker. The connection can be used at once, while the
// handler runs and after it has returned, until it is closed. Bytes written to
// it are sent after the responses to requests that were pipelined before this
// one, and after what was written since WriteHeader. Without WriteHeader no head
// is sent, and the returned writer begins with what was written before.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	switch {
	case w.isOver.Load():
		return nil, nil, errHandlerReturned
	case w.hijacked != nil, w.ctx.Hijacked(): // by this handler, or one around it
		return nil, nil, http.ErrHijacked
	case w.stream != nil:
		return nil, nil, errHijackAfterFlush
	case w.ctx.Conn() == nil, w.ctx.ProtoMajor() > 1 && len(w.ctx.Request.Header.ConnectProtocol()) == 0:
		return nil, nil, http.ErrNotSupported
	}
	if err := w.exchange.source.drain(); err != nil {
		return nil, nil, err
	}
	inner := w.ctx.Conn()
	c := &hijackedConn{inner: inner, closed: make(chan struct{})}
	c.changed.L = &c.mu
	if w.ctx.Hijack(c.serve); !w.ctx.Hijacked() { // before the head: only a hijacked response may have 101 as its final status
		return nil, nil, http.ErrHijacked // another protocol gets the connection
	}
	err := w.flushHead()
	if err == nil {
		err = inner.SetDeadline(time.Time{}) // removes the deadlines of the request
	}
	if err != nil {
		w.ctx.Hijack(nil)
		return nil, nil, err
	}
	w.hijacked = c
	w.ctx.HijackSetNoResponse(true)
	upgrade.OnHijackDropped(w.ctx, func() { _ = c.Close() })
	body := w.ctx.Response.Body() // empty after WriteHeader
	own := &ownedConn{c}
	runtime.AddCleanup(own, func(c *hijackedConn) { _ = c.Close() }, c)
	out := bufio.NewWriterSize(own, max(hijackBufferSize, len(body)))
	_, _ = out.Write(body) // there is room
	w.ctx.Response.ResetBody()
	return own, bufio.NewReadWriter(bufio.NewReader(own), out), nil
}

// flushHead sends the head if WriteHeader was called, and what was written after
// it.
func (w *responseWriter) flushHead() error {
	if w.state != stateExplicit {
		return nil
	}
	w.sniff()
	return w.ctx.Flush()
}

// ownedConn is what the handler has of a hijackedConn. It is closed when the program cannot use it
// any more, as a connection of net/http is; serve would wait for ever.
type ownedConn struct{ *hijackedConn }

// Read implements net.Conn. It keeps the connection until it returns.
func (c *ownedConn) Read(p []byte) (int, error) {
	defer runtime.KeepAlive(c)
	return c.hijackedConn.Read(p)
}

// Write implements net.Conn. It keeps the connection until it returns.
func (c *ownedConn) Write(p []byte) (int, error) {
	defer runtime.KeepAlive(c)
	return c.hijackedConn.Write(p)
}

// CloseWrite is the method that *net.TCPConn and *tls.Conn have. It keeps the connection
// until it returns.
func (c *ownedConn) CloseWrite() error {
	defer runtime.KeepAlive(c)
	return c.hijackedConn.CloseWrite()
}

// hijackedConn is the connection that a handler took over. While the handler
// runs, it uses RequestCtx.Conn, which is invalid once the handler has returned.
// Calls that are in progress then are interrupted, and continue with the
// connection that the HijackHandler gets.
type hijackedConn struct {
	mu       sync.Mutex
	changed  sync.Cond // signals changes of the fields below
	inner    net.Conn  // never nil
	users    int       // calls in progress
	isPaused bool      // between the two connections
	isClosed bool
	readBy   time.Time // the deadlines that the user has set
	writeBy  time.Time
	closed   chan struct{}
}

// enter returns the connection for one call; leave follows.
func (c *hijackedConn) enter() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.isPaused && !c.isClosed {
		c.changed.Wait()
	}
	if c.isClosed {
		return nil, net.ErrClosed
	}
	c.users++
	return c.inner, nil
}

// leave ends a call. again says that the call was interrupted and must be
// repeated with the other connection.
func (c *hijackedConn) leave(err error) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.changed.Broadcast()
	return c.isPaused && !c.isClosed && errors.Is(err, os.ErrDeadlineExceeded)
}

// Read implements net.Conn.
func (c *hijackedConn) Read(p []byte) (int, error) {
	for {
		inner, err := c.enter()
		if err != nil {
			return 0, err
		}
		n, err := inner.Read(p)
		if !c.leave(err) {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// Write implements net.Conn.
func (c *hijackedConn) Write(p []byte) (int, error) {
	written := 0
	for {
		inner, err := c.enter()
		if err != nil {
			return written, err
		}
		n, err := inner.Write(p[written:])
		written += n
		if !c.leave(err) {
			return written, err
		}
	}
}

// CloseWrite ends the output. The peer reads its end; what it still sends can be read. The
// error is errors.ErrUnsupported if the connection underneath cannot do it.
func (c *hijackedConn) CloseWrite() error {
	for {
		inner, err := c.enter()
		if err != nil {
			return err
		}
		err = errors.ErrUnsupported
		if half, ok := inner.(interface{ CloseWrite() error }); ok {
			err = half.CloseWrite()
		}
		if !c.leave(err) {
			return err
		}
	}
}

// Close implements net.Conn. If it is called while the handler runs, the peer
// sees it only after the handler has returned.
func (c *hijackedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return net.ErrClosed
	}
	c.isClosed = true
	close(c.closed)
	c.changed.Broadcast()
	if c.isPaused {
		return nil // serve closes the connection that it gets
	}
	return c.inner.Close()
}

// LocalAddr implements net.Conn.
func (c *hijackedConn) LocalAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner.LocalAddr()
}

// RemoteAddr implements net.Conn.
func (c *hijackedConn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner.RemoteAddr()
}

// SetDeadline implements net.Conn.
func (c *hijackedConn) SetDeadline(t time.Time) error { return c.setDeadlines(&t, &t) }

// SetReadDeadline implements net.Conn.
func (c *hijackedConn) SetReadDeadline(t time.Time) error { return c.setDeadlines(&t, nil) }

// SetWriteDeadline implements net.Conn.
func (c *hijackedConn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(nil, &t) }

// setDeadlines sets the deadlines that are not nil. While c is paused, it only
// stores them; serve sets them.
func (c *hijackedConn) setDeadlines(read, write *time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return net.ErrClosed
	}
	var err error
	if read != nil {
		c.readBy = *read
		if !c.isPaused {
			err = c.inner.SetReadDeadline(*read)
		}
	}
	if write != nil {
		c.writeBy = *write
		if !c.isPaused {
			err = errors.Join(err, c.inner.SetWriteDeadline(*write))
		}
	}
	return err
}

// pause ends the use of the handler's connection, because the engine is about to
// take it back. It interrupts the calls in progress and waits for their end.
func (c *hijackedConn) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isPaused = true
	if c.users > 0 && !c.isClosed {
		_ = c.inner.SetDeadline(time.Unix(1, 0))
	}
	for c.users > 0 {
		c.changed.Wait()
	}
}

// fail closes the connection, because serve will never be called.
func (c *hijackedConn) fail() {
	_ = c.Close()
	c.pause()
}

// serve is the HijackHandler. It returns after the user has closed c, because
// the server closes conn when serve returns.
func (c *hijackedConn) serve(conn net.Conn) {
	c.mu.Lock()
	c.inner, c.isPaused = conn, false
	if c.isClosed {
		c.mu.Unlock()
		_ = conn.Close() // the server may not do it
		return
	}
	if !c.readBy.IsZero() {
		_ = conn.SetReadDeadline(c.readBy)
	}
	if !c.writeBy.IsZero() {
		_ = conn.SetWriteDeadline(c.writeBy)
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	<-c.closed
}
