package dial

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// handshakeTimeout limits every TLS handshake.
const handshakeTimeout = 30 * time.Second

// Handshake makes a client's TLS handshake on conn, until ctx ends. The default
// server name is the host of addr, which conn was dialed to. The caller owns
// conn, also after a failure.
func Handshake(ctx context.Context, conn net.Conn, config *tls.Config, addr string) (*tls.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		if strings.Contains(host, ":") {
			host, _, _ = strings.Cut(host, "%") // no certificate has the zone of an IPv6 address
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	return secure, Complete(ctx, secure)
}

// Complete makes the handshake on a connection that may not have done it, until ctx ends.
func Complete(ctx context.Context, secure *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	return secure.HandshakeContext(ctx)
}
