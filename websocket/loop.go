package websocket

import (
	"context"
	"net"
)

// A loop connects the goroutine of Endpoint.Accept with the session. The session's Run
// waits until Read has asked for the message, or the part, after the one that it hands over,
// because that is in the engine's buffer. It also waits at the beginning of a message, before
// it is known whether Read or Reader wants it. The lock of the Conn guards the fields.
type loop struct {
	given    handed        // to Read; the session changes it when Read asks
	handed   chan struct{} // something was given; holds one; closed at the end of the connection
	wake     chan struct{} // to Run: something has changed; holds one; nil: Run does not wait
	reads    net.Conn      // whose deadline ends a Fill when flushing ends; nil: it cannot fill
	err      error         // for Read after the end
	question question      // of the call that asks
	asked    uint64        // how often a call has asked
	reading  readState
	kind     loopKind
	isDone   bool // serve has returned
}

// A loopKind says who calls Read.
type loopKind uint8

const (
	noLoop     loopKind = iota // no one: there are callbacks
	acceptLoop                 // a function that Accept got
	serveLoop                  // Endpoint.Serve, which other processes have too
	dialLoop                   // the caller of Dial
)

// A readState is what the goroutine of Accept does.
type readState uint8

const (
	readNot    readState = iota // serve does something else
	readAsks                    // it waits in Read
	readHasOne                  // it has a message, and has not called Read again
)

func newLoop(kind loopKind) *loop {
	return &loop{kind: kind, handed: make(chan struct{}, 1)}
}

// mayMove tells whether the connection may move now: the function waits in Read; the lock
// is held.
func (l *loop) mayMove() bool { return l.reading == readAsks && !l.isDone }

// poke wakes Run, if it waits; the lock is held.
func (l *loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end ends the loop after the connection.
func (l *loop) end(err error) {
	l.err = err
	close(l.handed)
}

// serve is the goroutine of Endpoint.Accept.
func (c *Conn) serve(f func(*Conn) error) {
	var err error
	hasReturned := false
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
		switch {
		case !hasReturned: // Goexit, or a panic
			err = &CloseError{Code: CodeInternal}
		case err == nil:
			err = &CloseError{Code: CodeNormal}
		}
		c.closeFor(err)
		c.lock().Lock()
		defer c.lock().Unlock()
		if c.more != nil {
			c.more.loop().isDone = true
			c.more.loop().poke()
		}
	}()
	err = f(c)
	hasReturned = true
}

// A question is what a call wants that waits for a message.
type question struct {
	wantsParts bool   // of a message while it arrives
	after      uint64 // handed.asked of the part before; 0: the next message is wanted
}

// handed is a message, or a part of one, that the session hands to the loop.
type handed struct {
	Message
	isRest  bool   // it is not the beginning of a message
	hasMore bool   // more of the message comes
	asked   uint64 // loop.asked when it came
}

// Read waits for the next message, in a function of Endpoint.Accept or of a connection of
// Dial. One goroutine may call it at a time. If ctx ends first, it returns ctx's error; no
// message is lost, and the connection stays open. After the end of the connection the error
// is what OnClose of another connection would get: a *CloseError, or what broke the connection.
func (c *Conn) Read(ctx context.Context) (Message, error) {
	l, err := c.ask(ctx, question{})
	if err != nil {
		return Message{}, err
	}
	return l.given.Message, nil
}

// ask waits for a message, and skips the rest of the one before; or for a part. It is in
// given then. Waiting loops are many, so ask needs little of the stack.
func (c *Conn) ask(ctx context.Context, q question) (*loop, error) {
	mu := c.lock()
	mu.Lock()
	for {
		l, err := c.question(q)
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case _, isOpen := <-l.handed:
			if !isOpen {
				return nil, l.err
			}
		case <-ctx.Done():
			if l.takeBack(mu) {
				return nil, ctx.Err()
			}
			<-l.handed // meanwhile
		}
		if !l.given.isRest || q.after != 0 {
			return l, nil
		}
		mu.Lock()
	}
}

// question tells the loop what a call wants; the lock is held.
func (c *Conn) question(q question) (*loop, error) {
	if c.more == nil || c.more.loop() == nil {
		if c.phase >= phaseClosed {
			return nil, c.ended()
		}
		return nil, ErrNoLoop
	}
	l := c.more.loop()
	if l.reading == readAsks || q.after != 0 && q.after != l.asked {
		return nil, ErrReading
	}
	l.reading, l.question = readAsks, q
	l.asked++
	l.poke()
	return l, nil
}

// takeBack ends a question. It is false if something was handed over.
func (l *loop) takeBack(mu *shard) bool {
	mu.Lock()
	defer mu.Unlock()
	if l.reading != readAsks {
		return false
	}
	l.reading = readNot
	return true
}

// hand hands a message to the loop when Read asks for it, and waits until Read asks for the
// next one.
func (s *session) hand(l *loop, h handed) {
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	if s.isAsked(l) {
		s.give(l, h)
	}
}

// isAsked waits until Read asks for a message. It is false if it does not any more; the lock
// is held, but not while it waits.
func (s *session) isAsked(l *loop) bool {
	s.attend(l, func() bool { return s.conn.phase != phaseOpen || l.reading == readAsks })
	return !l.isDone && s.conn.phase == phaseOpen
}

// give hands h to a loop that asks, and waits until it asks again; the lock is held, but not
// while it waits.
func (s *session) give(l *loop, h handed) {
	h.asked = l.asked
	l.reading = readHasOne
	l.given = h
	l.handed <- struct{}{}
	s.attend(l, func() bool { return l.reading == readAsks })
}

// attend sends what the loop writes until isOver returns true, or serve has returned. The
// lock is held, but not while it waits.
func (s *session) attend(l *loop, isOver func() bool) {
	mu := s.conn.lock()
	wake := s.waker()
	l.wake = wake
	defer func() { l.wake = nil }()
	for !l.isDone && !isOver() {
		if s.ending == endNot && s.run == running && s.hasOutput() { // otherwise the end of flushing wakes it
			s.sendMeanwhile()
			continue
		}
		mu.Unlock()
		<-wake
		mu.Lock()
	}
}

// hasOutput reports whether there is output. If not, it takes some from the outbox. The lock
// is held.
func (s *session) hasOutput() bool {
	if len(s.out) == 0 {
		s.take(flushSize)
	}
	return len(s.out) > 0
}

// waker returns a channel for loop.wake. Few sessions need one, and only while they have a
// message for the loop, so it is the session's, which connections share.
func (s *session) waker() chan struct{} {
	if s.waking == nil {
		s.waking = make(chan struct{}, 1)
	}
	select {
	case <-s.waking: // of the last wait
	default:
	}
	return s.waking
}
