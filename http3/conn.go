package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

const quicNoError = quic.StreamErrorCode(h3.NoError)

// A conn is the connection of a client. One goroutine accepts its requests, and those of uni read
// the client's control and QPACK streams; all ends with the QUIC connection.
type conn struct {
	serving *serving
	quic    *quic.Conn
	net     *netConn
	workers engine.Workers
	control *quic.SendStream
	uni     uniStreams // the client's

	mu      sync.Mutex
	facts   server.Facts
	phase   phase
	streams *exchange      // the open ones, a list
	open    int            // their number
	spent   []*quic.Stream // ended ones whose credit was not given back
	rested  int            // of spent: those that had ended before the oldest open one began
	heads   int            // bytes of the heads and trailer sections of all streams
	tunnels int            // those that hijack handlers have
	idle    int64          // since when there are none, in Nanos
	next    uint64         // the first id that was not accepted
	packets uint64         // that had arrived at the last sweep
	budget  budget
	early   *fieldlist.EarlyPriorities[uint64] // nil: there were none
	changed sync.Cond
	failure error // why the connection was ended by us; nil: in order
	waiting *time.Timer

	telling  sync.Mutex // locked before mu
	isActive bool       // what ConnState was told last; telling guards it
}

// A phase is how far the life of a connection is.
type phase uint8

const (
	phaseOpen    phase = iota
	phaseLeaving       // GOAWAY has told the client to open no more streams
	phaseEnding        // GOAWAY has named the first stream that is not accepted
	phaseWaiting       // there are no more streams; the client has some time to take the rest
	phaseClosed
)

// serveConn begins to serve q.
func (s *serving) serveConn(q *quic.Conn) {
	n := newNetConn(q)
	facts, err := s.admit(n)
	s.handshakeEnded(q)
	if err != nil {
		s.stats.refused.Add(1)
		code := h3.ExcessiveLoad
		if err == errEnding {
			code = h3.NoError
		}
		s.refuse(q, code, err.Error())
		return
	}
	c := &conn{serving: s, quic: q, net: n, facts: facts, idle: clock.Nanos()}
	c.changed.L = &c.mu
	c.uni.quic, c.uni.owner = q, c
	c.workers = s.attachment.Workers(facts.ID)
	if err = c.openControl(); err != nil {
		s.attachment.Release(n, err)
		s.refuse(q, h3.StreamCreationError, "no control stream")
		return
	}
	s.add(c)
	go c.serve() // it waits with a small stack: that of this goroutine has grown
	c.uni.awaitFirst()
}

// serve accepts requests until the connection ends.
func (c *conn) serve() {
	for {
		s, err := c.quic.AcceptStream(context.Background())
		if err != nil {
			c.end(err)
			return
		}
		c.accept(s)
	}
}

// end ends what c has, when no more requests come because of err.
func (c *conn) end(err error) {
	err = c.endReason(err)
	c.telling.Lock() // ConnState is called for one change at a time
	c.mu.Lock()
	c.phase = phaseClosed
	c.telling.Unlock()
	if c.waiting != nil {
		c.waiting.Stop()
	}
	for c.open > 0 {
		c.changed.Wait()
	}
	c.mu.Unlock()
	c.serving.remove(c, err)
}

// earlyRequests is with how many requests a client's unidirectional streams are looked for: it opens
// them at the beginning. Later, a sweep finds them.
const earlyRequests = 4

// accept begins a request.
func (c *conn) accept(s *quic.Stream) {
	x := acquireExchange()
	x.stream.open(c, s)
	x.start = clock.Nanos()
	c.mu.Lock()
	if c.phase > phaseLeaving {
		err := c.budget.charge(x.start, costRefused)
		c.mu.Unlock()
		s.CancelRead(quic.StreamErrorCode(h3.RequestRejected))
		s.CancelWrite(quic.StreamErrorCode(h3.RequestRejected))
		s.ReleaseStreamCredit()
		x.forget()
		exchangePool.Put(x)
		if err != nil {
			c.fail(err)
		}
		return
	}
	c.next = x.id + 4
	c.facts.Served++
	x.facts = c.facts
	x.facts.Stream = x.id
	if x.next = c.streams; x.next != nil {
		x.next.prev = x
	}
	c.streams = x
	c.open++
	if c.early != nil {
		if p, ok := c.early.Take(x.id); ok {
			x.isUpdated = true
			x.prioritizeLocked(p)
		}
	}
	begins := c.open == 1
	if begins {
		c.rested = len(c.spent)
	}
	limit := c.serving.cfg.MaxRequests
	isLast := limit > 0 && c.facts.Served >= limit
	c.mu.Unlock()
	if begins {
		c.uni.resume() // it may have a PRIORITY_UPDATE
		if x.facts.Served <= earlyRequests {
			c.uni.acceptArrived()
		}
		c.tellState()
	}
	if isLast || c.serving.attachment.IsClosing(&x.facts) {
		c.leave()
	}
	c.workers.Go(x)
}

// ended removes x, whose request is over.
func (c *conn) ended(x *exchange) {
	if !x.isCounted {
		c.serving.attachment.Transferred(x.bytesRead, x.bytesWritten)
	}
	if x.isReset.Load() || x.output != outputEnded {
		c.serving.stats.resets.Add(1)
	}
	c.mu.Lock()
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		c.streams = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	c.open--
	c.heads, x.head = c.heads-x.head, 0
	c.keepCreditLocked(x.quic)
	if x.outlived {
		c.tunnels--
	}
	c.cutTunnelsLocked()
	c.budget.refund(requestRefund)
	isQuiet := c.open == 0
	if isQuiet {
		c.idle = clock.Nanos()
		c.changed.Broadcast()
		if c.phase == phaseEnding {
			c.waitForClientLocked()
		}
	}
	c.mu.Unlock()
	if isQuiet {
		c.tellState()
	}
}

// tellState tells ConnState whether there are requests, if that has changed. Release tells the
// end, after which nothing comes.
func (c *conn) tellState() {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	isActive, isOver := c.open > 0, c.phase == phaseClosed
	c.mu.Unlock()
	if isActive != c.isActive && !isOver {
		c.isActive = isActive
		c.serving.attachment.SetActive(c.net, isActive)
	}
}

// fail ends the connection because of what the client did.
func (c *conn) fail(err *h3.Error) {
	c.mu.Lock()
	isFirst := c.failure == nil
	if isFirst {
		c.failure = err
	}
	c.mu.Unlock()
	if isFirst && err.Code == h3.ExcessiveLoad {
		c.serving.stats.calmed.Add(1)
	}
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(err.Code), err.Error())
}

// endReason returns what Release gets of a connection that has ended with err: nil if that was
// in order.
func (c *conn) endReason(err error) error {
	c.mu.Lock()
	failure := c.failure
	c.mu.Unlock()
	if failure != nil {
		return failure
	}
	var app *quic.ApplicationError
	if errors.As(err, &app) && (app.ErrorCode == 0 || app.ErrorCode == quic.ApplicationErrorCode(h3.NoError)) {
		return nil
	}
	var idle *quic.IdleTimeoutError
	var reset *quic.StatelessResetError
	if errors.As(err, &idle) || errors.As(err, &reset) {
		c.serving.stats.lost.Add(1)
	}
	return err
}

// A netConn shows a QUIC connection as a net.Conn: its addresses, and the state of TLS.
type netConn struct {
	engine.AddressOnly
	quic   *quic.Conn
	remote net.Addr // limits count it until the end, whatever address the client changes to
}

func newNetConn(q *quic.Conn) *netConn {
	n := &netConn{quic: q, remote: q.RemoteAddr()}
	n.AddressOnly.Err = sluice.ErrNotSupportedHTTP2
	return n
}

// LocalAddr implements net.Conn.
func (c *netConn) LocalAddr() net.Addr { return c.quic.LocalAddr() }

// RemoteAddr implements net.Conn. It is the address at the connection's beginning.
func (c *netConn) RemoteAddr() net.Addr { return c.remote }

// Close implements net.Conn: it ends the connection, in order.
func (c *netConn) Close() error {
	return c.quic.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "")
}

// ConnectionState returns the state of TLS.
func (c *netConn) ConnectionState() tls.ConnectionState { return c.quic.ConnectionState().TLS }
