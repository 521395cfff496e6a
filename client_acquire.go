package sluice

import (
	"errors"

	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/client/pool"
)

// connKind says what connection is acquired.
type connKind uint8

const (
	forHTTP1  connKind = iota // it speaks HTTP/1.1
	forTurn                   // as forHTTP1; the turn looks whether it has unread bytes
	inPlace                   // as forHTTP1, in place of one that was closed: a new one
	forEither                 // it speaks HTTP/1.1 or HTTP/2
)

// acquire returns a connection for a call: an idle one that is open and has no
// unread bytes, or a new one. If it speaks HTTP/2, the result is a place for a stream.
func (c *HostClient) acquire(call *clientCall, kind connKind) (m *http2Member, cc *clientConn, err error) {
	trace := call.trace
	if trace == nil || kind == inPlace {
		return c.take(call, kind)
	}
	call.phase = PhaseWait
	if trace.GetConn != nil {
		trace.GetConn(c.firstAddr())
	}
	m, cc, err = c.take(call, kind)
	switch {
	case err != nil:
	case m != nil:
		trace.gotConn(m.Conn.nc, m.Conn.wasUsed.Load(), func() { c.releaseHTTP2(m) })
	default:
		trace.gotConn(cc.wire.Net, cc.isReused, func() { c.cut(cc) })
	}
	return m, cc, err
}

// take takes an idle connection or, with forEither, a place for a stream, or opens a
// connection of kind.
func (c *HostClient) take(call *clientCall, kind connKind) (m *http2Member, cc *clientConn, err error) {
	if kind == inPlace {
		return c.connect(call, kind)
	}
	if kind != forEither && c.ConnPoolStrategy != FIFO && c.ConnPoolStrategy != LIFO && c.IdleConnsCount() > 0 {
		return nil, nil, ErrConnPoolStrategyNotImpl
	}
	call.phase = PhaseWait
	if call.HasEnded() || call.IsOver() {
		return nil, nil, call.err()
	}
	if kind == forEither {
		if m, cc, err = c.takeShared(call); err != errChoseHTTP1 || c.http2.passHTTP1 != nil {
			return m, cc, err
		}
	}
	settings := c.poolSettings()
	got, isFull := c.pool.Take(settings, call.isFresh)
	if isFull {
		if got, err = c.wait(call, settings); err != nil {
			return nil, nil, err
		}
	}
	if cc = got.Conn; cc != nil {
		if !c.pool.IsExpired(settings, got) && cc.wire.IsQuiet(kind == forTurn) {
			cc.isReused, cc.lastUse = true, got.LastUse
			return nil, cc, nil
		}
		cc.close() // connect opens a new one in its place
	}
	return c.connect(call, kind)
}

// wait waits for a free connection, or for the permission to open one.
func (c *HostClient) wait(call *clientCall, settings pool.Settings[clientConn]) (got pool.Idle[clientConn], err error) {
	limit := c.MaxConnWaitTimeout
	if limit <= 0 && call.Done() == nil {
		return got, ErrNoFreeConns
	}
	got, ok := c.pool.Wait(settings, call.isFresh, &call.Bounds, limit)
	if ok {
		return got, nil
	}
	if err := call.err(); err != nil {
		return got, err
	}
	return got, ErrNoFreeConns
}

// errChoseHTTP1 ends the waiting for a connection of HTTP/2.
var errChoseHTTP1 = errors.New("sluice: the server has chosen HTTP/1.1")

// takeShared takes a place for a stream, or opens a connection. The error is errChoseHTTP1
// if connections of HTTP/1.1 are in the other pool.
func (c *HostClient) takeShared(call *clientCall) (m *http2Member, cc *clientConn, err error) {
	settings := c.http2Settings()
	if c.http2.isHTTP1.Load() {
		if m = c.http2.TakeOpen(settings); m == nil {
			err = errChoseHTTP1
		}
		return m, nil, err
	}
	got, ok := c.http2.Take(settings)
	if !ok {
		if got, err = c.waitShared(call, settings); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case got.Err == pool.ErrFull:
		return nil, nil, ErrNoFreeConns
	case got.MayOpen:
		return c.openShared(call)
	}
	return got.Member, nil, got.Err
}

// waitShared waits for a stream or the permission to open a connection, like wait.
func (c *HostClient) waitShared(call *clientCall, settings pool.SharedSettings[*http2Peer]) (got pool.Grant[*http2Peer], err error) {
	patience := max(c.MaxConnWaitTimeout, 0)
	if patience == 0 && call.Done() != nil {
		patience = -1
	}
	got, ok := c.http2.Wait(settings, patience, &call.Bounds)
	if ok {
		return got, nil
	}
	if err := call.err(); err != nil {
		return got, err
	}
	return got, ErrTimeout // the timer was early
}

// openShared opens a connection with the permission, and passes the permission on.
func (c *HostClient) openShared(call *clientCall) (m *http2Member, cc *clientConn, err error) {
	hasEnded := false
	defer func() {
		if !hasEnded { // also if a dialer panics
			c.http2.Abandon(c.http2Settings())
		}
	}()
	if c.http2.isHTTP1.Load() { // the last permission has just found that out
		hasEnded = true
		c.http2.Failed(c.http2Settings(), errChoseHTTP1)
		return nil, nil, errChoseHTTP1
	}
	if m, cc, err = c.dial(call, true); err != nil {
		if call.err() == nil {
			hasEnded = true
			c.http2.Failed(c.http2Settings(), err)
		}
		return nil, nil, err
	}
	hasEnded = true
	if m != nil {
		c.http2.Opened(c.http2Settings(), m)
		return m, nil, nil
	}
	// Before others learn of HTTP/1.1: they would open a connection in place of this one,
	// or one more than MaxConns.
	if c.http2.passHTTP1 != nil {
		c.http2.passHTTP1(cc)
		cc, err = nil, errChoseHTTP1
	} else {
		c.pool.Admit()
	}
	c.http2.isHTTP1.Store(true)
	c.http2.Failed(c.http2Settings(), errChoseHTTP1)
	return nil, cc, err
}

// openSingle opens a connection for one request, nil if there is no room or it fails.
func (c *HostClient) openSingle(call *clientCall) (m *http2Member) {
	if !c.http2.TakeSingle(c.http2Settings()) {
		return nil
	}
	defer func() {
		if m == nil { // also if a dialer panics
			c.http2.FailedSingle()
		}
	}()
	var cc *clientConn
	switch m, cc, _ = c.dial(call, true); {
	case m != nil:
		c.http2.OpenedSingle(m)
	case cc != nil:
		cc.close()
	}
	return m
}

// connect opens a connection of kind. The caller has a permission of the pool of HTTP/1.1,
// which connect returns if it fails or if the server has begun to choose HTTP/2.
func (c *HostClient) connect(call *clientCall, kind connKind) (m *http2Member, cc *clientConn, err error) {
	defer func() {
		if cc == nil { // also if a dialer panics
			c.pool.Closed(c.poolSettings())
		}
	}()
	if m, cc, err = c.dial(call, kind == forEither); m != nil {
		c.http2.isHTTP1.Store(false)
		c.http2.Admit(c.http2Settings(), m)
	}
	return m, cc, err
}

// release makes a connection idle, or gives it to a waiting call.
func (c *HostClient) release(cc *clientConn) {
	c.pool.Release(c.poolSettings(), cc)
}

// discard closes a connection and returns its place to the pool.
func (c *HostClient) discard(cc *clientConn) {
	c.pool.Discard(c.poolSettings(), cc)
}

// cut is discard for a connection whose server may have stopped reading.
func (c *HostClient) cut(cc *clientConn) {
	dial.Cut(cc.wire.Net)
	c.pool.Closed(c.poolSettings())
}

// releaseHTTP2 gives a stream back.
func (c *HostClient) releaseHTTP2(m *http2Member) {
	c.http2.Release(c.http2Settings(), m)
}
