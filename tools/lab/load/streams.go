package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// streams is a thread with a goroutine per connection: over TLS, and where there
// is no event loop.
type streams struct {
	*run
	rec      *recorder
	count    int
	schedule *schedule    // of an open loop, the pacer's; nil: it is closed
	due      chan int64   // from the pacer
	owed     atomic.Int64 // requests that were under way in the end
	conns    []*stream
	opening  chan struct{} // has an element for each connection that is being made
}

func newStreams(r *run, i int) *streams {
	s := &streams{run: r, rec: r.recorders[i], count: r.share(i), opening: make(chan struct{}, maxOpening)}
	if r.Rate > 0 {
		s.schedule = newSchedule(r.Rate, i, r.Threads)
		s.due = make(chan int64)
	}
	for range s.count {
		c := &stream{streams: s, buf: make([]byte, streamBuffer)}
		if s.http2 != nil {
			c.channel = &channel{session: newSession(s.http2)}
			c.ready.L = &c.mu
		}
		c.heads.isBodiless = s.IsHead
		c.heads.handshake = s.handshake
		c.framer = s.newFramer(&c.heads)
		s.conns = append(s.conns, c)
	}
	return s
}

// close implements thread.
func (s *streams) close() {}

// rouse implements thread.
func (s *streams) rouse() {} // the pacer has the channel

// warm implements thread.
func (s *streams) warm() {
	var connections sync.WaitGroup
	for _, c := range s.conns {
		if c.channel != nil {
			connections.Go(c.warmStreams)
		} else {
			connections.Go(c.warm)
		}
	}
	connections.Wait()
}

// work implements thread.
func (s *streams) work() (unanswered, unsent int64) {
	var connections, pacing sync.WaitGroup
	ended := make(chan struct{})
	if s.schedule != nil {
		pacing.Go(func() { unsent = s.pace(ended) })
	}
	for _, c := range s.conns {
		if c.channel != nil {
			connections.Go(c.multiplex)
		} else {
			connections.Go(c.work)
		}
	}
	connections.Wait()
	close(ended)
	pacing.Wait()
	return s.owed.Load(), unsent
}

// pace hands over requests when they are due, to whichever connection is free. It
// returns how many were due in the end and found none.
func (s *streams) pace(ended <-chan struct{}) (unsent int64) {
	defer close(s.due)
	for s.sleepUntil(s.schedule.next()) {
		if s.begin(1) == 0 {
			return 0
		}
		at := s.schedule.take()
		select {
		case s.due <- at:
			continue
		case <-s.ctx.Done():
		case <-ended:
		}
		s.rec.mu.Lock()
		defer s.rec.mu.Unlock()
		now := s.now()
		record(s.rec.now.total, now-at)
		unsent = int64(s.begin(int(s.schedule.due(now))))
		s.schedule.overdue(s.rec.now.total, unsent, now)
		return unsent + 1
	}
	return 0
}

// sleepUntil reports whether that time has come before the run's end, and before
// all requests were begun.
func (s *streams) sleepUntil(at int64) bool {
	const short = 2 * time.Millisecond
	for {
		left := time.Duration(at - s.now())
		switch {
		case s.ctx.Err() != nil || s.hasBegunAll():
			return false
		case left <= 0:
			return true
		case left <= short:
			sleep(left)
		default:
			s.idle(left - short)
		}
	}
}

// idle waits, or until all requests were begun, or the run's end.
func (s *streams) idle(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.spent:
	case <-s.ctx.Done():
	}
}

const (
	streamBuffer = 16 << 10 // a TLS record
	// maxInline is how much is written without reading at the same time: more
	// might wait for a server that waits for its responses to be read.
	maxInline = 16 << 10
)

// A stream is one connection of streams, and those that come after it.
type stream struct {
	*streams
	*channel          // nil: HTTP/1.1
	conn     net.Conn // nil: none
	forget   func() bool
	hasUse   bool // conn has had a response
	buf      []byte
	heads    headReader
	framer   framer
	requests []int64 // when the requests under way were due
	answered int
	since    int64
	failures int
}

// warm sends the first requests. The connection stays, without the context.
func (c *stream) warm() {
	for range warmUps {
		now := c.now()
		for range c.Depth {
			c.requests = append(c.requests, now)
		}
		for len(c.requests) > 0 {
			if c.conn == nil {
				c.connect()
			}
			if c.conn == nil || c.ctx.Err() != nil {
				return
			}
			c.exchange()
		}
	}
	if c.conn != nil {
		c.forget()
	}
}

// work sends requests until the run ends or there are none left.
func (c *stream) work() {
	defer c.drop()
	if conn := c.conn; conn != nil { // it has warmed up
		c.forget = context.AfterFunc(c.ctx, func() { conn.Close() })
	}
	for c.ctx.Err() == nil {
		hasMore := true
		switch {
		case c.conn == nil && (len(c.requests) > 0 || !c.OncePerConn):
			hasMore = c.connect()
		case len(c.requests) == 0:
			hasMore = c.next()
		default:
			c.exchange()
		}
		if !hasMore {
			return
		}
	}
	c.leave()
}

// leave counts what has no response when the run ends.
func (c *stream) leave() {
	left := c.requests[c.answered:]
	if c.channel != nil {
		left = c.session.underWay(left)
	}
	c.owed.Add(int64(len(left)))
	if c.schedule == nil {
		return
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	for _, due := range left {
		record(c.rec.now.total, c.now()-due)
	}
}

// next gets the next requests. It returns false if there are none.
func (c *stream) next() bool {
	c.requests, c.answered = c.requests[:0], 0
	if c.schedule == nil {
		now := c.now()
		for range c.begin(c.Depth) {
			c.requests = append(c.requests, now)
		}
	} else {
		c.await()
	}
	c.rec.mu.Lock()
	c.rec.Sent += int64(len(c.requests))
	c.rec.mu.Unlock()
	return len(c.requests) > 0
}

// await waits for a request that is due, and takes more if they are due already.
func (c *stream) await() {
	select {
	case due, ok := <-c.due:
		if !ok {
			return
		}
		c.requests = append(c.requests, due)
	case <-c.ctx.Done():
		return
	}
	for len(c.requests) < c.Depth {
		select {
		case due, ok := <-c.due:
			if !ok {
				return
			}
			c.requests = append(c.requests, due)
		default:
			return
		}
	}
}

// connect makes a connection, unless there is an error, which it counts; then it
// has waited. It returns false if there is nothing left to connect for.
func (c *stream) connect() bool {
	conn, err := c.dial()
	if err == nil {
		c.met()
		c.failures, c.hasUse = 0, false
		c.forget = context.AfterFunc(c.ctx, func() { conn.Close() })
		c.use(conn)
		c.rec.mu.Lock()
		c.rec.Connections++
		c.rec.mu.Unlock()
		return true
	}
	if c.ctx.Err() != nil {
		return true
	}
	if !c.giveUp(err) {
		return false
	}
	c.failures++
	c.missed()
	c.idle(time.Duration(pause(c.failures)))
	return true
}

// giveUp counts the requests that a connection was to be made for. It returns false if
// there are none.
func (c *stream) giveUp(err error) bool {
	if c.channel != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	lost := len(c.requests) - c.answered
	if lost == 0 {
		lost = c.begin(1)
	}
	if lost > 0 {
		c.fail(Connect, err, lost)
	}
	return lost > 0
}

// fail counts what has failed, and forgets the requests.
func (c *stream) fail(kind Kind, err error, n int) {
	c.rec.mu.Lock()
	c.rec.failed(kind, err, n)
	c.rec.mu.Unlock()
	c.requests, c.answered = c.requests[:0], 0
}

func (c *stream) dial() (net.Conn, error) {
	c.opening <- struct{}{}
	defer func() { <-c.opening }()
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.Timeout, errConnectTimeout)
	defer cancel()
	var dialer net.Dialer
	dialer.KeepAlive = -1
	conn, err := dialer.DialContext(ctx, c.Network, c.Address)
	if err != nil {
		return nil, err
	}
	if c.TLS != nil {
		secured := tls.Client(conn, c.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		conn = secured
	}
	c.framer.reset()
	if c.channel != nil || c.handshake != nil {
		forget := context.AfterFunc(ctx, func() { conn.Close() })
		err := c.greet(conn)
		if forget(); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// drop closes the connection.
func (c *stream) drop() {
	if c.conn == nil {
		return
	}
	if c.forget() {
		c.conn.Close()
	}
	c.conn = nil
}

// reset closes without leaving the port waiting for a minute.
func (c *stream) reset() {
	inner := c.conn
	if secured, ok := inner.(*tls.Conn); ok {
		inner = secured.NetConn()
	}
	if plain, ok := inner.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
	}
	c.drop()
}

// exchange sends the requests and reads their responses.
func (c *stream) exchange() {
	c.since = c.now()
	// An error would come back from the first write.
	_ = c.conn.SetDeadline(time.Now().Add(c.Timeout))
	batch := c.batch[:len(c.requests)*len(c.Request)]
	if len(batch) <= maxInline {
		n, writeErr := c.conn.Write(batch)
		c.finish(n, writeErr, c.read())
		return
	}
	var n int
	var writeErr error
	written := make(chan struct{})
	conn := c.conn
	go func() {
		defer close(written)
		n, writeErr = conn.Write(batch)
	}()
	readErr := c.read()
	select {
	case <-written:
	default:
		conn.Close() // the rest has no use any more
		<-written
		if readErr == nil {
			writeErr, readErr = nil, errParted
		}
	}
	c.finish(n, writeErr, readErr)
}

// errParted: the server ends the connection behind a response.
var errParted = errors.New("the server ends the connection")

// invalidError says that what came is no response.
type invalidError struct{ error }

// finish takes down how an exchange has ended.
func (c *stream) finish(written int, writeErr, readErr error) {
	c.rec.mu.Lock()
	c.rec.BytesWritten += int64(written)
	c.rec.mu.Unlock()
	left := len(c.requests) - c.answered
	var timeout net.Error
	var invalid invalidError
	switch {
	case readErr == nil && left == 0 && writeErr == nil:
		c.requests, c.answered = c.requests[:0], 0
		return
	case errors.Is(readErr, errParted), readErr == nil:
		c.requests = c.requests[:copy(c.requests, c.requests[c.answered:])]
		c.answered = 0
		c.reset()
		return
	case c.ctx.Err() != nil:
		return // it was cut off
	case errors.As(readErr, &invalid):
		c.fail(kindOf(invalid.error), invalid.error, max(left, 1))
	case errors.As(readErr, &timeout) && timeout.Timeout():
		c.rec.mu.Lock()
		for _, due := range c.requests[c.answered:] {
			record(c.rec.now.total, c.now()-due)
		}
		c.rec.mu.Unlock()
		c.fail(Timeout, errResponseTimeout, left)
	case c.hasUse && c.schedule != nil && c.answered == 0 && c.framer.isBetween():
		// The server has closed a connection that was idle.
	case writeErr != nil:
		c.fail(Write, writeErr, left)
	default:
		c.fail(Read, readErr, left)
	}
	c.drop()
}

// read reads until all requests have their responses.
func (c *stream) read() error {
	for c.answered < len(c.requests) {
		n, err := c.conn.Read(c.buf)
		if n > 0 {
			if err := c.take(c.buf[:n]); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if !c.framer.end() {
			return errTruncated
		}
		c.rec.mu.Lock()
		c.complete(c.now())
		c.rec.mu.Unlock()
		return errParted
	}
	return nil
}

// take finds responses in what was received.
func (c *stream) take(in []byte) error {
	now := c.now()
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	c.rec.BytesRead += int64(len(in))
	for len(in) > 0 {
		if c.answered == len(c.requests) && c.handshake == nil {
			return invalidError{errSurplus}
		}
		used, isDone, err := c.framer.feed(in)
		if err != nil {
			return invalidError{err}
		}
		in = in[used:]
		if !isDone {
			return nil
		}
		if c.answered == len(c.requests) {
			return invalidError{errUnwanted}
		}
		c.complete(now)
		if c.framer.outcome.closes || c.OncePerConn {
			return errParted
		}
	}
	return nil
}

// complete counts a response.
func (c *stream) complete(now int64) {
	c.rec.answered(c.framer.outcome.status, c.requests[c.answered], c.since, now)
	c.answered++
	c.hasUse = true
}
