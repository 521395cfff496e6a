package control

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"
)

// A Link is one end of the connection between the coordinator and a process.
// Send may be called by several goroutines.
type Link struct {
	conn net.Conn
	in   *json.Decoder

	mu  sync.Mutex
	out *bufio.Writer
	enc *json.Encoder
}

// NewLink returns a Link over conn.
func NewLink(conn net.Conn) *Link {
	out := bufio.NewWriter(conn)
	return &Link{conn: conn, in: json.NewDecoder(conn), out: out, enc: json.NewEncoder(out)}
}

// Send sends m.
func (l *Link) Send(m Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enc.Encode(m); err != nil {
		return err
	}
	return l.out.Flush()
}

// Receive waits for a message; io.EOF means that the other end is gone.
func (l *Link) Receive() (m Message, err error) {
	err = l.in.Decode(&m)
	return m, err
}

// Close closes the connection.
func (l *Link) Close() error { return l.conn.Close() }
