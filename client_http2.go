package sluice

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/sluicehttp/sluice/internal/client/dial"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// HTTP2Mode says when a client speaks HTTP/2 (RFC 9113).
//
// A TLSConfig with NextProtos is offered unchanged: then they decide whether HTTP/2 is
// negotiated. HTTP2Off takes "h2" out of a copy. A RoundTripper that does not call DefaultTransport gets connections of
// HTTP/1.1 from AcquireConn, whatever the mode is.
type HTTP2Mode uint8

const (
	// HTTP2Off speaks HTTP/1.1 only.
	HTTP2Off HTTP2Mode = iota
	// HTTP2Auto offers HTTP/2 and HTTP/1.1 over TLS (ALPN, RFC 7301), and speaks what
	// the server chooses. In plain text it speaks HTTP/1.1. A request with the method
	// CONNECT uses HTTP/1.1.
	HTTP2Auto
	// HTTP2Only speaks HTTP/2: over TLS if the server chooses it, and in plain text
	// without asking (prior knowledge, RFC 9113 section 3.3). Connecting to another
	// server fails with ErrNoHTTP2. A request with the method CONNECT fails with
	// ErrNotSupportedHTTP2.
	HTTP2Only
)

// String returns "off", "auto" or "only".
func (m HTTP2Mode) String() string {
	if m > HTTP2Only {
		return fmt.Sprintf("HTTP2Mode(%d)", uint8(m))
	}
	return [...]string{"off", "auto", "only"}[m]
}

// ErrNoHTTP2 is matched by the errors of clients with HTTP2Only for a server that has not
// chosen HTTP/2 or, in plain text, answers with something else. Over TLS it is wrapped in
// an *ErrDialWithUpstream. Use HTTP2Auto or HTTP2Off for such servers.
var ErrNoHTTP2 = errors.New("sluice: the server does not speak HTTP/2")

// prepareHTTP2 derives from the fields what connections of HTTP/2 need.
func (c *HostClient) prepareHTTP2() {
	s := &c.setup
	s.http2 = &http2client.Config{Limits: c.headLimits(), Pairs: &h2.Pairs{}, IsTLS: c.IsTLS}
	if s.tls != nil {
		s.tls, s.alpn = dial.OfferHTTP2(s.tls)
	}
}

// chosen reports whether HTTP/2 is spoken on a new connection, whose handshake is done.
func (c *HostClient) chosen(nc net.Conn) (isHTTP2 bool, err error) {
	isOnly := c.HTTP2 == HTTP2Only
	if !c.IsTLS {
		return isOnly, nil
	}
	secure, ok := nc.(*tls.Conn)
	if !ok {
		return false, nil // impossible: dialTLS returns no other connection
	}
	isHTTP2 = secure.ConnectionState().NegotiatedProtocol == dial.HTTP2
	if !isHTTP2 && isOnly {
		return false, ErrNoHTTP2
	}
	return isHTTP2, nil
}
