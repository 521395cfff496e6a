package http2client

import (
	"net"
)

// A Watcher learns what a pool has to know of a connection. Its methods are called
// without the Conn's lock, one after the other, in the order of the events, on the
// goroutine of any caller of the Conn.
type Watcher interface {
	// LimitChanged is called with the first SETTINGS of the peer, and when the peer
	// changes how many streams it admits: Conn.Limit.
	LimitChanged(limit int)
	// Ended is called once, when the connection takes no new streams any more: after
	// GOAWAY, an error or Close. Open streams may go on. The Conn closes itself after the
	// last one.
	Ended(err error)
}

// A Conn is one connection. Its methods may be called concurrently.
type Conn struct {
	conn net.Conn
}

// NewConn returns the Conn of a new net.Conn, which it owns. Nothing is written or read
// before the first Do: the preface leaves with the first request. watcher may be nil.
func NewConn(conn net.Conn, cfg *Config, watcher Watcher) *Conn { return &Conn{conn: conn} }

// Do sends the request of s and receives the response. It returns nil when the response
// is complete or, if it is streamed, when its head has come. Any other result is an
// *Error; then the stream has ended, and other streams go on. Beyond Limit, the result
// is ErrFull, with the Outcome Unsent.
func (c *Conn) Do(s *Stream) error { return nil }

// Limit returns how many streams may be open at once: 100 until the first SETTINGS of the
// peer, then what the peer admits, at most 1000; 0 if the connection takes no new ones.
func (c *Conn) Limit() int { return assumedStreams }

// Streams returns how many streams are open.
func (c *Conn) Streams() int { return 0 }

// NetConn returns the net.Conn. It must not be read from, written to or closed.
func (c *Conn) NetConn() net.Conn { return c.conn }

// Drain makes the connection take no new streams, and close after the last one.
func (c *Conn) Drain() {}

// Close ends all streams with ErrClosed, says GOAWAY and closes the net.Conn. It waits at
// most a second for the writing.
func (c *Conn) Close() error { return nil }
