package dial

import (
	"crypto/tls"
	"net"
	"time"
)

// A Secure is a connection with TLS: a *tls.Conn, or one that embeds it.
type Secure interface {
	net.Conn
	ConnectionState() tls.ConnectionState
	NetConn() net.Conn // below TLS
}

// alertTime is how long Close waits for a peer that does not read.
const alertTime = 100 * time.Millisecond

// Close closes a connection. With TLS, it sends the last alert before (RFC 8446 section
// 6.1), for which package tls would wait 5 s if the peer does not read; Close waits for
// alertTime at most.
func Close(conn net.Conn) {
	if _, isTLS := conn.(Secure); isTLS {
		defer time.AfterFunc(alertTime, func() { Cut(conn) }).Stop()
	}
	_ = conn.Close() // a client cannot do anything about the error
}

// Cut closes a connection at once and, with TLS, without an alert: its peer may have
// stopped reading, and the time of the call may be over.
func Cut(conn net.Conn) {
	for secure, ok := conn.(Secure); ok; secure, ok = conn.(Secure) {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
