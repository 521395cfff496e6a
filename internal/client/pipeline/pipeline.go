// Package pipeline sends requests to one host without waiting for the answers to
// earlier requests. It knows nothing of their contents: requests are bytes, and
// answers come in the order of the requests.
//
// A Client distributes requests over lanes. A lane has the queue of one
// connection, and a goroutine that dials and writes. A conn is that connection,
// with a goroutine that reads answers.
package pipeline

import (
	"bufio"
	"errors"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Config configures a Client.
type Config struct {
	Conns        int           // connections
	Pending      int           // for each connection: queued requests, and separately sent ones without an answer
	Attempts     int           // connections on which a request is tried
	BatchDelay   time.Duration // how long a request waits for others, to be written together
	ReadBuffer   int           // bytes
	WriteBuffer  int           // bytes after which no request is added to a write
	ReadTimeout  time.Duration // for each answer; 0: no limit
	WriteTimeout time.Duration // for each write; 0: no limit
	MaxIdle      time.Duration // how long a connection is kept without an answer that a call waits for

	Dial  func() (net.Conn, error)
	IsTLS bool        // what Dial returns has TLS
	Log   func(error) // called when dialing fails and when a connection does

	// IsTimeout reports whether an error of a connection is a time-out.
	IsTimeout func(error) bool
	// IsRefusal reports whether an error of a new connection would be that of the next one, too.
	IsRefusal func(error) bool
	// Explain returns the error of requests whose connection ended with err.
	Explain func(err error) error
}

// Errors of works and of connections.
var (
	// ErrOverflow is the error of a Work that was not sent because the queue is
	// full.
	ErrOverflow = errors.New("sluice: too many requests are pending; the pipeline is full")
	// ErrEnded is passed to Config.Explain when the server closed the connection,
	// or when it was to be closed.
	ErrEnded = errors.New("sluice: the connection has ended")

	errUnsolicited = errors.New("sluice: the server sent what nobody asked for")
	errNoAnswer    = errors.New("sluice: the server does not answer")
	errIdle        = errors.New("sluice: the connection was idle for too long")
	errLast        = errors.New("sluice: the connection ends with this response")
)

// An Answer reads the answer to a Work. A Client calls it on goroutines of its
// own.
type Answer interface {
	// Read reads an answer. isLast means that the connection must not be used
	// any more. After an error, Read may be called again, for another connection.
	Read(br *bufio.Reader, local, remote net.Addr) (isLast bool, err error)
	// Release is called once when the Work of a call that was given up has ended.
	// The Client does not use the Work any more.
	Release()
}

// A Work is a request in a Client. Its owner sets the exported fields, passes it
// to Do, and owns it again when Do returns Answered. It may be used again.
type Work struct {
	Out          []byte // the encoded request
	IsRepeatable bool   // it may be sent again although the server may have processed it
	IsLast       bool   // no request may follow it on the connection
	Err          error  // set when it is answered

	answer     Answer
	next, prev *Work         // neighbors in a list of the lane
	state      workState     // guarded by the lane's lock
	done       chan struct{} // gets a token when the work is done, if its call still waits
	at         int64         // offset of its first byte on the connection
	attempts   int           // connections that failed it
	timer      *time.Timer   // of an earlier call, stopped; nil: none
}

// Init prepares a new Work, whose answer is read by a.
func (w *Work) Init(a Answer) { w.answer, w.done = a, make(chan struct{}, 1) }

// workState says which part of the client has a Work.
type workState uint8

const (
	workQueued    workState = iota // in the queue; nothing of it was sent
	workSent                       // sent on the connection
	workAbandoned                  // sent on the connection, and its call was given up
	workDone                       // the caller's, with a token in done
)

// Answered is returned by Do in place of a phase: the caller owns the Work again, and Err
// says how it ended.
const Answered = clock.PhaseRead + 1

// A Client sends works. Its methods may be called concurrently.
type Client struct{ lanes []lane }

// New returns a Client.
func New(cfg Config) *Client {
	c := &Client{lanes: make([]lane, cfg.Conns)}
	for i := range c.lanes {
		c.lanes[i].init(&cfg)
	}
	return c
}

// Do sends w and waits for its answer, until done or the end of limit gives the call
// up; nil and 0 do not. It then returns the phase that w has come to: PhaseWait,
// PhaseDial, PhaseWrite before its first byte was written, or PhaseRead. If the queue is
// full, a call with either waits for room, and a call without displaces the oldest work in
// the queue, which fails with ErrOverflow.
// The caller owns w again if the result is Answered.
func (c *Client) Do(w *Work, done <-chan struct{}, limit time.Duration) clock.Phase {
	if limit == 0 {
		return c.do(w, done, nil)
	}
	timer := w.timer
	if w.timer = nil; timer == nil {
		timer = time.NewTimer(limit)
	} else {
		timer.Reset(limit)
	}
	phase := c.do(w, done, timer.C)
	timer.Stop()
	if phase == Answered {
		w.timer = timer
	}
	return phase
}

// do is Do with the channel of a timer.
func (c *Client) do(w *Work, done <-chan struct{}, expired <-chan time.Time) clock.Phase {
	w.Err, w.at, w.attempts = nil, 0, 0
	l := c.choose()
	switch {
	case l.reserve():
	case done != nil || expired != nil:
		if !l.awaitRoom(done, expired) {
			w.answer.Release()
			return clock.PhaseWait
		}
	case !l.displace():
		w.Err = ErrOverflow
		return Answered
	}
	l.enqueue(w)
	if done == nil && expired == nil {
		<-w.done
		return Answered
	}
	select {
	case <-w.done:
		return Answered
	case <-done:
	case <-expired:
	}
	phase := l.abandon(w)
	if phase == Answered {
		<-w.done // it was answered just now
	}
	return phase
}

// Pending returns the number of works that are queued or not answered, including
// those whose calls were given up.
func (c *Client) Pending() (n int) {
	for i := range c.lanes {
		n += int(c.lanes[i].pending())
	}
	return n
}

// CloseIdle closes the connections without pending works.
func (c *Client) CloseIdle() {
	for i := range c.lanes {
		c.lanes[i].closeIdle()
	}
}

// choose returns the lane for the next work: the one with the least load.
func (c *Client) choose() *lane {
	best := &c.lanes[0]
	if len(c.lanes) == 1 {
		return best
	}
	least := best.load()
	for i := 1; i < len(c.lanes) && least > 0; i++ {
		if load := c.lanes[i].load(); load < least {
			best, least = &c.lanes[i], load
		}
	}
	return best
}

// workList is an ordered list of works. The zero value is empty.
type workList struct{ first, last *Work }

func (l *workList) push(w *Work) {
	w.prev, w.next = l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// pop removes and returns the first work, or nil if the list is empty.
func (l *workList) pop() *Work {
	w := l.first
	if w != nil {
		l.remove(w)
	}
	return w
}

func (l *workList) remove(w *Work) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// prepend moves all works of other to the front and empties other.
func (l *workList) prepend(other *workList) {
	if other.first == nil {
		return
	}
	if l.first == nil {
		*l = *other
	} else {
		other.last.next, l.first.prev = l.first, other.last
		l.first = other.first
	}
	*other = workList{}
}
