package http3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// A clientConn is a connection to a server. Callers read their own streams, and the
// goroutines of uni the server's.
type clientConn struct {
	peers   *peers
	member  *pool.Member[*clientConn]
	quic    *quic.Conn
	info    *netConn
	addr    string
	control *quic.SendStream
	wasUsed atomic.Bool
	settled chan struct{} // closed when the server's SETTINGS have come
	// admitsConnect: they admit extended CONNECT (RFC 9220 section 3). It is valid after settled.
	admitsConnect bool
	uni           uniStreams // the server's

	mu      sync.Mutex
	streams map[quic.StreamID]*clientStream
	isGoing bool
	goAway  uint64    // the first stream that the server does not process; valid if isGoing
	failure *h3.Error // by which we have ended the connection; nil: we have not
}

// newClientConn returns the connection info to addr. It has sent SETTINGS.
func newClientConn(p *peers, info *netConn, addr string) (*clientConn, error) {
	c := &clientConn{peers: p, quic: info.quic, info: info, addr: addr, settled: make(chan struct{}), streams: make(map[quic.StreamID]*clientStream)}
	c.uni.quic, c.uni.owner = c.quic, c
	c.member = pool.NewMember(c, mostStreams)
	control, err := c.quic.OpenUniStream()
	if err == nil {
		settings := h3.AppendVarint(nil, streamControl) // the type of the stream
		settings = h3.AppendSettings(settings, h3.Settings{MaxSectionSize: uint64(p.host.Limits.MaxHead)})
		_, err = control.Write(settings)
	}
	if err != nil {
		_ = c.quic.CloseWithError(quic.ApplicationErrorCode(h3.StreamCreationError), "no control stream")
		return nil, err
	}
	c.control = control
	return c, nil
}

// start begins to read what the server sends. The pool has the connection, which ended tells of
// its end.
func (c *clientConn) start() {
	go c.uni.awaitAll()
	watchControl(c.control, c)
	context.AfterFunc(c.quic.Context(), c.ended)
}

// ended tells the pool that the connection is over.
func (c *clientConn) ended() {
	c.peers.pool.Drain(c.peers.settings, c.member)
	c.mu.Lock()
	failure := c.failure
	c.mu.Unlock()
	var idle *quic.IdleTimeoutError
	var transport *quic.TransportError
	switch err := context.Cause(c.quic.Context()); {
	case failure != nil, errors.As(err, &idle), errors.As(err, &transport):
		c.peers.failed()
	case c.peers.transport.Mode != Only:
		c.peers.transport.origins.worked(c.peers.host.Addrs[0])
	}
}

// close ends the connection in order.
func (c *clientConn) close() {
	_ = c.info.Close()
}

// fail ends the connection because of what the server did.
func (c *clientConn) fail(err *h3.Error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(err.Code), err.Error())
}

// goingAway applies a GOAWAY: streams from id on are not processed, and there are no new ones.
func (c *clientConn) goingAway(id uint64) {
	lost := make(map[*clientStream]*quic.Stream)
	c.mu.Lock()
	c.isGoing, c.goAway = true, id
	for number, s := range c.streams {
		if uint64(number) >= id {
			lost[s] = s.quic
		}
	}
	c.mu.Unlock()
	c.peers.pool.Drain(c.peers.settings, c.member)
	for s, stream := range lost {
		s.abortIf(stream, errGoingAway, streams.Failure{IsSafe: true})
	}
}

// errGoingAway is the error of a request that the server has not processed, because it ends the
// connection.
var errGoingAway error = &Error{Code: uint64(h3.RequestRejected), IsRemote: true, text: "the server ends the connection", cause: io.EOF}

// errFull is the error of a request for which a connection has no stream.
var errFull error = &Error{Code: uint64(h3.RequestRejected), text: "the connection has no room for another stream", cause: io.EOF}

// add opens a QUIC stream for s. An error means that nothing was sent.
func (c *clientConn) add(s *clientStream) error {
	stream, err := c.quic.OpenStream()
	if isLimit(err) {
		stream, err = c.awaitStream(s)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	id := stream.StreamID()
	isLate := c.isGoing && uint64(id) >= c.goAway
	if !isLate {
		s.opened(stream)
		c.streams[id] = s
	}
	c.mu.Unlock()
	if isLate {
		stream.CancelRead(quic.StreamErrorCode(h3.RequestCancelled))
		stream.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
		return errGoingAway
	}
	return nil
}

// isLimit reports whether err says that the server admits no more streams now.
func isLimit(err error) bool {
	var limit *quic.StreamLimitReachedError
	return errors.As(err, &limit)
}

// creditPatience is how long a server may take to admit another stream after one has ended, and
// two round trips beyond that: it waits for our acknowledgement. A server that takes longer admits
// no more streams.
const creditPatience = 50 * time.Millisecond

// awaitStream waits for a stream, until the request of s ends. If none comes in creditPatience and
// there are others, their number is all that the server admits, and the error is errFull.
func (c *clientConn) awaitStream(s *clientStream) (*quic.Stream, error) {
	bounds := clock.Bounds{Context: s.params.Context, Deadline: s.params.Deadline}
	if s.params.WriteTimeout > 0 {
		bounds.Allow(s.params.WriteTimeout)
	}
	for {
		own := bounds
		own.Allow(creditPatience + 2*c.quic.ConnectionStats().SmoothedRTT)
		ctx, cancel := own.Within()
		stream, err := c.quic.OpenStreamSync(ctx)
		hasEnded := ctx.Err() != nil
		cancel()
		switch {
		case err == nil || !hasEnded:
			return stream, err
		case bounds.Err() != nil:
			return nil, bounds.Err()
		}
		c.mu.Lock()
		open := len(c.streams)
		c.mu.Unlock()
		if open > 0 {
			c.peers.pool.SetLimit(c.peers.settings, c.member, open)
			return nil, errFull
		}
	}
}

// errNoConnect is the error of an extended CONNECT in the mode Only.
var errNoConnect = fmt.Errorf("%w: %w", ErrNotHTTP3, streams.ErrNoConnect)

// awaitConnect waits until the server has said that it admits extended CONNECT. The error is that of
// peers.elsewhere if it does not.
func (c *clientConn) awaitConnect(bounds clock.Bounds) error {
	ctx, cancel := bounds.Within()
	defer cancel()
	select {
	case <-c.settled:
		if !c.admitsConnect {
			return c.peers.elsewhere(errNoConnect)
		}
		return nil
	case <-c.quic.Context().Done():
		return context.Cause(c.quic.Context())
	case <-ctx.Done():
		return cmp.Or(bounds.Err(), os.ErrDeadlineExceeded)
	}
}

// remove forgets a stream.
func (c *clientConn) remove(id quic.StreamID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}

// lost returns the error of a request whose connection has ended with err, an error of quic-go.
func (c *clientConn) lost(err error) error {
	c.mu.Lock()
	failure := c.failure
	c.mu.Unlock()
	if failure != nil {
		return violationError(failure)
	}
	lost := &Error{Code: uint64(h3.NoError), text: "the connection has ended: " + err.Error(), cause: io.EOF}
	if alert := (*quic.TransportError)(nil); errors.As(err, &alert) && alert.Remote && alert.ErrorCode.IsCryptoError() {
		lost.cause = &net.OpError{Op: "remote error", Net: "udp", Err: err} // as crypto/tls has it
	}
	var app *quic.ApplicationError
	if errors.As(err, &app) {
		lost.Code, lost.IsRemote = uint64(app.ErrorCode), app.Remote
	}
	return lost
}

// controlParser implements uniOwner.
func (c *clientConn) controlParser() parser {
	return &serverControl{conn: c, control: h3.Control{Side: h3.Client}}
}

// openedOther implements uniOwner.
func (c *clientConn) openedOther(kind uint64) *h3.Error {
	if kind == streamPush {
		return h3.ErrPushID
	}
	return nil
}

// maxControlIgnored is how many frames without a meaning a server may send on its control stream.
const maxControlIgnored = 10_000

// A serverControl parses a server's control stream.
type serverControl struct {
	conn    *clientConn
	control h3.Control
	ignored int
}

func (p *serverControl) parse(in []byte) *h3.Error {
	for len(in) > 0 {
		used, ev, isEvent, err := p.control.Next(in)
		if err != nil {
			return err
		}
		in = in[used:]
		switch {
		case !isEvent:
		case ev.Type == h3.FrameSettings: // the parser admits one
			p.conn.admitsConnect = ev.Settings.ExtendedConnect
			close(p.conn.settled)
		case ev.Type == h3.FrameGoAway:
			p.conn.goingAway(ev.ID)
		default:
			if p.ignored++; p.ignored > maxControlIgnored {
				return h3.ErrNothing
			}
		}
	}
	return nil
}
