//go:build linux && (amd64 || arm64)

package core

import (
	"encoding/binary"
	"syscall"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// What crypto/tls looks at before it answers a client.
const (
	longestRecord = 16<<10 + 2048

	messageHead  = 4
	clientHello  = 1
	longestHello = 64 << 10
)

// hasHello reports whether crypto/tls has something to do: the whole ClientHello is in the
// socket, or what no ClientHello begins with, or the end. Before that, crypto/tls would only
// keep a goroutine and its buffers waiting.
func (c *conn) hasHello() bool {
	n, errno := c.driver.source.Peek(c.fd, c.In)
	if n == 0 || n == len(c.In) {
		return errno != syscall.EAGAIN
	}
	return c.slot().has(flagGone) || !isPartOfHello(c.In[:n])
}

// isPartOfHello reports whether crypto/tls waits for more after p: in the middle of a record,
// or of a ClientHello, which may be cut into several (RFC 8446 section 4.1.2).
func isPartOfHello(p []byte) bool {
	var head [messageHead]byte
	for got, want := 0, messageHead; got < want; {
		if len(p) < tls13.HeaderSize {
			return true
		}
		kind, size := p[0], int(binary.BigEndian.Uint16(p[3:]))
		p = p[tls13.HeaderSize:]
		switch {
		case kind != tls13.TypeHandshake && kind != tls13.TypeAlert, size == 0, size > longestRecord:
			return false
		case len(p) < size:
			return true
		case kind == tls13.TypeAlert:
			return false
		}
		if got < messageHead {
			copy(head[got:], p[:size])
		}
		got += size
		p = p[size:]
		if got >= messageHead {
			want = messageHead + int(binary.BigEndian.Uint32(head[:])&0xffffff)
			if head[0] != clientHello || want > longestHello {
				return false
			}
		}
	}
	return false
}
