package http3

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/streams"
)

// Mode says when a Transport speaks HTTP/3.
type Mode uint8

const (
	// Auto speaks HTTP/3 with servers that have said over TLS that they do, with Alt-Svc (RFC
	// 7838) for their own host name. While there is no connection, TCP is dialed, too, 250 ms
	// after QUIC or when QUIC has failed; requests use what is open first. After QUIC alone has failed,
	// the server is not asked over it for 5 minutes, and twice as long each time, up to 48 h.
	// Other requests go to root's transport: those without TLS, those of a HostClient with several
	// addresses or a dial function, plain CONNECT, and those beyond the streams that the server admits.
	Auto Mode = iota
	// Prefer is Auto, and takes servers that have said nothing for ones that speak HTTP/3 at
	// the same port. A dial function of the HostClient is for TCP only.
	Prefer
	// Only speaks HTTP/3 with all servers, and never uses TCP. A dial function of the
	// HostClient has no effect.
	Only
)

// String returns "auto", "prefer" or "only".
func (m Mode) String() string {
	if m > Only {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return [...]string{"auto", "prefer", "only"}[m]
}

// A Transport sends the requests of clients over HTTP/3 (RFC 9114), or over HTTP/1.1 and HTTP/2
// as sluice.DefaultTransport does. Set it as Transport of a sluice.Client or sluice.HostClient:
// one for several, which then share what it knows of servers. The zero value is ready to use. It
// must not be copied after the first use, and Mode must not be changed.
//
// Requests to a server share a connection, and open another one when it has as many streams as
// the server admits, up to MaxHTTP2Conns. The limits, time-outs, retries and traces of the client
// apply as with HTTP/2; MaxIdleConnDuration, MaxConnDuration, CloseIdleConnections and the counts
// of connections, too. TLSConfig is copied: TLS 1.3 and the protocol "h3" are set. QUIC's address
// is dialed over IPv4, with DialDualStack also over IPv6. Nothing is sent before the handshake is
// complete (no 0-RTT), and server push is not accepted.
//
// Extended CONNECT (RFC 9220) of Client.ConnectProtocol, which websocket.Dial uses, goes over HTTP/3,
// too, if the server admits that; otherwise over HTTP/2, except in the mode Only. For that, a
// RoundTripper that wraps a Transport must embed it.
//
// Errors of HTTP/3 match *Error. A connection that ended without a response is
// sluice.ErrConnectionClosed.
type Transport struct {
	// Mode says when HTTP/3 is spoken. The zero value is Auto.
	Mode Mode

	origins origins
	// headStart, patience and silence replace the constants headStart, quicTimeout and silence in
	// tests; 0: they do not.
	headStart, patience, silence time.Duration
}

var (
	_ sluice.RoundTripper = (*Transport)(nil)
	_ streams.Transport   = (*Transport)(nil)
)

// RoundTrip implements sluice.RoundTripper.
func (t *Transport) RoundTrip(hc *sluice.HostClient, req *sluice.Request, resp *sluice.Response) (retry bool, err error) {
	return streams.RoundTrip((*protocol)(t), hc, req, resp)
}

// protocol is a Transport as root sees it.
type protocol Transport

// Value returns what packages of this project need to know of the Transport, under keys that they
// alone can name; nil for any other key.
func (t *Transport) Value(key any) any {
	if key == (streams.ProtocolKey{}) {
		return (*protocol)(t)
	}
	return nil
}

// NewPeers implements streams.Protocol.
func (p *protocol) NewPeers(h *streams.Host) streams.Peers { return newPeers((*Transport)(p), h) }

// ErrNotHTTP3 is the error for a request that a Transport with the mode Only cannot send: one
// without TLS, a plain CONNECT, or one that the server wants over another version; or an extended
// CONNECT that the server does not admit.
var ErrNotHTTP3 = errors.New("sluice: http3: the request cannot be sent over HTTP/3")
