package dial

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
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
		host, err := serverName(addr)
		if err != nil {
			return tls.Client(conn, config), err
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

// MakeSecure returns conn as a connection of TLS, until ctx ends. It makes the handshake and
// calls trace, which may be nil; or it completes the handshake if the dialer has set up
// TLS itself. It closes conn after a failure, also if a hook or a callback of config panics.
func MakeSecure(ctx context.Context, conn net.Conn, config *tls.Config, addr string, trace *Trace) (*tls.Conn, error) {
	isSecure := false
	defer func() {
		if !isSecure {
			_ = conn.Close()
		}
	}()
	secure, isOwn := conn.(*tls.Conn)
	var err error
	if isOwn {
		err = Complete(ctx, secure)
	} else {
		if trace != nil && trace.TLSStart != nil {
			trace.TLSStart()
		}
		secure, err = Handshake(ctx, conn, config, addr)
		if trace != nil && trace.TLSDone != nil {
			trace.TLSDone(secure.ConnectionState(), err)
		}
	}
	if err != nil {
		return nil, err
	}
	isSecure = true
	return secure, nil
}

// CheckServerName returns an error if a handshake could not choose the server name: config
// has none, and addr is malformed.
func CheckServerName(config *tls.Config, addr string) error {
	if config != nil && config.ServerName != "" {
		return nil
	}
	_, err := serverName(addr)
	return err
}

// serverName returns the host of an address, which may have no port.
func serverName(addr string) (string, error) {
	if !strings.Contains(addr, ":") {
		return addr, nil
	}
	host, _, err := net.SplitHostPort(addr)
	return host, err
}

// Complete makes the handshake on a connection that may not have done it, until ctx ends.
func Complete(ctx context.Context, secure *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	return secure.HandshakeContext(ctx)
}

// The protocols that clients offer (RFC 7301 section 6).
const (
	HTTP2  = "h2"
	HTTP11 = "http/1.1"
)

// OfferHTTP2 returns config for connections that need HTTP/1.1, and for those that may
// speak HTTP/2. NextProtos of the program decide whether HTTP/2 is offered.
func OfferHTTP2(config *tls.Config) (http1, both *tls.Config) {
	http1, both = config, config
	switch {
	case len(config.NextProtos) == 0:
		both = config.Clone()
		both.NextProtos = []string{HTTP2, HTTP11}
	case slices.Contains(config.NextProtos, HTTP2):
		http1 = config.Clone()
		http1.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(p string) bool { return p == HTTP2 })
	}
	return http1, both
}
