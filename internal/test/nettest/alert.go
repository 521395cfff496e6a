package nettest

import (
	"encoding/binary"
	"net"
)

// An AlertConn is a client's connection below TLS 1.3. It knows how the peer's records end:
// crypto/tls returns io.EOF without a closing alert, too.
type AlertConn struct {
	net.Conn
	in   []byte // of a record that is not complete
	last int    // the size of the last complete record
}

// Read implements net.Conn.
func (c *AlertConn) Read(p []byte) (int, error) {
	const head = 5
	n, err := c.Conn.Read(p)
	c.in = append(c.in, p[:n]...)
	for len(c.in) >= head {
		size := int(binary.BigEndian.Uint16(c.in[3:]))
		if len(c.in) < head+size {
			break
		}
		c.in, c.last = c.in[head+size:], size
	}
	return n, err
}

// EndedWithAlert reports whether the last record is as long as an alert: two bytes, the type and
// the tag. Content of two bytes is, too.
func (c *AlertConn) EndedWithAlert() bool { return len(c.in) == 0 && c.last == 2+1+16 }
