package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/dial"
)

const (
	defaultDialTimeout = 30 * time.Second
	dialReadLimit      = 1 << 20
	maxRefusal         = 64 << 10 // of the body of an answer that refuses
	maxResponseHead    = 64 << 10
)

// DialOptions are the options of Dial; all fields may be zero.
type DialOptions struct {
	// Endpoint has the limits, Compression, the Protocols that are offered and, if
	// OnMessage is set, the callbacks of the connection, which then needs no goroutine
	// while it waits, unless it uses TLS or HTTP/2. Its Check, Origins, Name and Serve are not used.
	// nil: the defaults, with a ReadLimit of 1 MiB. Use one Endpoint for many connections.
	Endpoint *Endpoint
	// State is what Conn.State returns.
	State any
	// Header has more fields of the request, such as Origin, Cookie or Authorization; nil:
	// none. Those that the handshake needs are replaced. It is not modified.
	Header *sluice.RequestHeader
	// Client makes the WebSocket a stream of one of its connections of HTTP/2 (RFC 8441),
	// which it shares with requests and other WebSockets, if Client.HTTP2 admits that: for
	// wss with HTTP2Auto, and for ws and wss with HTTP2Only. If the server does not speak
	// HTTP/2 or does not admit WebSockets there, Dial opens a connection of HTTP/1.1 with
	// HTTP2Auto, and fails with sluice.ErrNoHTTP2 or sluice.ErrNoConnectProtocol with
	// HTTP2Only. nil: a connection of HTTP/1.1. It is not used for ws+unix.
	Client *sluice.Client
	// Dial connects to addr, "host:port", for HTTP/1.1, but not to a Unix socket; nil: Client.DialContext or, if that
	// is nil, too, sluice.DialContext. Dialers of package fasthttpproxy go through proxies.
	// For wss, Dial adds TLS to the connection unless it is a *tls.Conn already.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// TLSConfig is for wss over HTTP/1.1; nil: Client.TLSConfig, or the defaults. Dial
	// offers HTTP/1.1 by ALPN.
	TLSConfig *tls.Config
	// MaxRedirects is how many redirects are followed; 0: none. A redirect from wss to ws is
	// not followed. Another origin does not get the credentials in Header; see
	// sluice.RequestHeader.DelCredentials.
	MaxRedirects int
}

// A HandshakeError says that the server has not accepted a connection.
type HandshakeError struct {
	Status int    // of the response; 101, or 2xx with HTTP/2, if the handshake breaks a rule
	Reason string // what was wrong
	// Header and Body are those of the response. Body has what had come when the context
	// ended, at most 64 KiB.
	Header *sluice.ResponseHeader
	Body   []byte
}

// Error implements error.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("sluice: websocket: the server has answered with status %d: %s", e.Status, e.Reason)
}

// Dial opens a connection to a URL with the scheme ws or wss (RFC 6455 section 4.1). ctx
// bounds the handshake, which takes at most 30 seconds; after Dial it has no effect. User
// information of the URL is sent as Basic authentication, to the URL's origin alone, unless
// Header has an Authorization.
//
// ws+unix:/run/app.sock:/chat?q=1 asks for /chat?q=1 on the Unix socket /run/app.sock, with
// the Host "localhost". A colon in the name of the socket is %3A. Without the second colon,
// Dial asks for /.
//
// If the Endpoint has no OnMessage, the program calls Conn.Read, and must do so until it
// returns an error or Conn.Close was called: while a message waits, the connection answers
// no pings and does not notice the end of its peer.
//
// The error is a *HandshakeError if the server has refused, or what has broken the
// connection.
func Dial(ctx context.Context, url string, o *DialOptions) (*Conn, error) {
	if o == nil {
		o = &DialOptions{}
	}
	ctx, cancel := context.WithTimeout(ctx, defaultDialTimeout)
	defer cancel()
	socket, url, err := cutSocket(url)
	if err != nil {
		return nil, err
	}
	u, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	defer sluice.ReleaseURI(u)
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	if o.Header != nil {
		o.Header.CopyTo(&req.Header)
	}
	for left := o.MaxRedirects; ; left-- {
		a := attempt{o: o, set: o.settings(), url: u, socket: socket, req: req, mayFollow: left > 0}
		c, err := a.open(ctx)
		var refused *HandshakeError
		if !errors.As(err, &refused) || !a.follows(refused.Status) {
			return c, err
		}
		before := originOf(u)
		if refused.Reason = redirect(u, &req.Header, value(refused.Header, sluice.HeaderLocation)); refused.Reason != "" {
			return nil, refused
		}
		if originOf(u) != before {
			socket = ""
		}
	}
}

// cutSocket returns the Unix socket of a URL with the scheme ws+unix, and a URL for what to
// ask for there. Another URL has no socket, and is returned as it came.
func cutSocket(url string) (socket, rest string, err error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok || !strings.EqualFold(scheme, "ws+unix") {
		return "", url, nil
	}
	name, target, _ := strings.Cut(rest, ":")
	name, hasHost := strings.CutPrefix(name, "//") // an empty one
	hasHost = hasHost && !strings.HasPrefix(name, "/")
	socket, err = neturl.PathUnescape(name)
	if err != nil || socket == "" || hasHost || strings.ContainsAny(name, "?#") || target != "" && !strings.HasPrefix(target, "/") {
		return "", "", fmt.Errorf("sluice: websocket: %q is not ws+unix:SOCKET:/PATH", url)
	}
	return socket, "ws://localhost" + target, nil
}

// parseURL returns a URL that the caller releases.
func parseURL(url string) (*sluice.URI, error) {
	u := sluice.AcquireURI()
	err := u.Parse(nil, []byte(url))
	switch {
	case err != nil:
	case portOf(u) == "":
		err = fmt.Errorf("sluice: websocket: the scheme of %q is not ws, wss or ws+unix", url)
	case !hasHost(u):
		err = fmt.Errorf("sluice: websocket: %q has no host", url)
	case len(u.Hash()) > 0: // RFC 6455 section 3
		err = fmt.Errorf("sluice: websocket: %q has a fragment", url)
	}
	if err != nil {
		sluice.ReleaseURI(u)
		return nil, err
	}
	return u, nil
}

// hasHost tells whether u has more than a port, which addresses may have alone (":80").
func hasHost(u *sluice.URI) bool { return len(u.Host()) > 0 && u.Host()[0] != ':' }

// isSecure tells whether u needs TLS.
func isSecure(u *sluice.URI) bool { return string(u.Scheme()) == "wss" }

// portOf returns the port that the scheme of u implies, "" if that is not ws or wss.
func portOf(u *sluice.URI) string {
	switch {
	case isSecure(u):
		return "443"
	case string(u.Scheme()) == "ws":
		return "80"
	}
	return ""
}

// addrOf returns the address to dial.
func addrOf(u *sluice.URI) string {
	addr := strings.TrimSuffix(string(u.Host()), ":") // an empty port is none
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), portOf(u))
	}
	return addr
}

// settings returns those of the Endpoint.
func (o *DialOptions) settings() *settings {
	if o.Endpoint == nil {
		return dialed.defaults.settings()
	}
	return o.Endpoint.settings()
}

// connect dials the host of u.
func (o *DialOptions) connect(ctx context.Context, u *sluice.URI) (net.Conn, error) {
	connect, secured := o.Dial, o.TLSConfig
	if connect == nil && o.Client != nil {
		connect = o.Client.DialContext
	}
	if connect == nil {
		connect = sluice.DialContext
	}
	if secured == nil && o.Client != nil {
		secured = o.Client.TLSConfig
	}
	addr := addrOf(u)
	conn, err := connect(ctx, addr)
	if err != nil || !isSecure(u) {
		return conn, err
	}
	if own, ok := conn.(*tls.Conn); ok { // as in sluice.Client
		return own, nil
	}
	config := &tls.Config{}
	if secured != nil {
		config = secured.Clone()
	}
	config.NextProtos = []string{"http/1.1"}
	secure, err := dial.Handshake(ctx, conn, config, addr)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}
