package websocket

import "context"

// A loop connects the goroutine of Endpoint.Accept with the session. The session's Run
// waits until Read has asked for the message after the one that it hands over, because the
// message is in the engine's buffer. The lock of the Conn guards the fields.
type loop struct {
	messages chan Message  // to Read; holds one
	wake     chan struct{} // to Run: something has changed; holds one
	ended    chan struct{} // closed at the end of the connection
	err      error         // for Read after the end
	reading  readState
	kind     loopKind
	isDone   bool         // serve has returned
	moved    []movedRooms // the Groups in the process from which the connection came
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
	return &loop{kind: kind, messages: make(chan Message, 1), wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// mayMove tells whether the connection may move now: the function waits in Read; the lock
// is held.
func (l *loop) mayMove() bool { return l.reading == readAsks && !l.isDone }

// poke wakes Run.
func (l *loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end ends the loop after the connection.
func (l *loop) end(err error) {
	l.err = err
	close(l.ended)
}

// serve is the goroutine of Endpoint.Accept.
func (c *Conn) serve(f func(*Conn) error) {
	err := error(&CloseError{Code: CodeInternal}) // after Goexit
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
		c.closeFor(err)
		c.lock().Lock()
		defer c.lock().Unlock()
		if c.more != nil {
			c.more.loop().isDone = true
			c.more.loop().poke()
		}
	}()
	if err = f(c); err == nil {
		err = &CloseError{Code: CodeNormal}
	}
}

// Read waits for the next message, in a function of Endpoint.Accept or of a connection of
// Dial. One goroutine may call it at a time. If ctx ends first, it returns ctx's error; no
// message is lost, and the connection stays open. After the end of the connection the error
// is what OnClose of another connection would get: a *CloseError, or what broke the connection.
func (c *Conn) Read(ctx context.Context) (Message, error) {
	mu := c.lock()
	mu.Lock()
	if c.more == nil || c.more.loop() == nil {
		err := error(ErrNoLoop)
		if c.phase >= phaseClosed {
			err = c.ended()
		}
		mu.Unlock()
		return Message{}, err
	}
	l := c.more.loop()
	if l.reading == readAsks {
		mu.Unlock()
		return Message{}, ErrReading
	}
	l.reading = readAsks
	l.poke()
	mu.Unlock()
	select {
	case m := <-l.messages:
		return m, nil
	case <-l.ended:
		return Message{}, l.err
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	if l.reading == readAsks {
		l.reading = readNot
		return Message{}, ctx.Err()
	}
	return <-l.messages, nil // it was handed over meanwhile
}

// hand hands a message to the loop, and waits until Read asks for the next one. Meanwhile
// it sends what the loop writes.
func (s *session) hand(l *loop, m Message) {
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	isHanded := false
	for !l.isDone {
		switch {
		case !isHanded && s.conn.phase != phaseOpen, isHanded && l.reading == readAsks:
			return
		case l.reading == readAsks:
			l.reading, isHanded = readHasOne, true
			l.messages <- m
			continue
		case len(s.out) > 0 && s.ending == endNot && s.run == running: // otherwise sendNow pokes
			out, written := s.out, len(s.out)-s.counted
			s.out, s.counted, s.run = nil, 0, flushing
			mu.Unlock()
			s.count(0, written)
			_, err := s.engine.Write(out)
			mu.Lock()
			s.wrote(out, err)
			s.endFlush()
			continue
		}
		mu.Unlock()
		<-l.wake
		mu.Lock()
	}
}
