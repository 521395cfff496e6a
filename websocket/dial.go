package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/wire/uri"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

const (
	defaultDialTimeout = 30 * time.Second
	maxRefusal         = 64 << 10 // of the body of an answer that refuses
)

// DialOptions are the options of Dial; all fields may be zero.
type DialOptions struct {
	// Endpoint has the limits, Compression, the Protocols that are offered and, if
	// OnMessage is set, the callbacks of the connection, which then needs no goroutine
	// while it waits, unless it uses TLS, HTTP/2 or HTTP/3. Its Check, Origins, Name and Serve are not used.
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
	// HTTP2Only. If Client.Transport is a Transport of module http3 that speaks HTTP/3 with the
	// server, the stream is one of HTTP/3 (RFC 9220). nil: a connection of HTTP/1.1. It is not
	// used for ws+unix.
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

// hasHost reports whether u has more than a port, which addresses may have alone (":80").
func hasHost(u *sluice.URI) bool { return len(u.Host()) > 0 && u.Host()[0] != ':' }

// isSecure reports whether u needs TLS.
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

// An attempt is one handshake of Dial.
type attempt struct {
	o         *DialOptions
	set       *settings
	url       *sluice.URI
	socket    string          // the Unix socket to connect to; "": the host of url
	req       *sluice.Request // with the fields of DialOptions.Header
	mayFollow bool            // a redirect
}

// follows reports whether a response is a redirect that is followed.
func (a *attempt) follows(status int) bool { return a.mayFollow && sluice.StatusCodeIsRedirect(status) }

// redirect makes u the URL at location, and removes from h what that must not get. It
// returns why the redirect is not followed; "": it is.
func redirect(u *sluice.URI, h *sluice.RequestHeader, location []byte) string {
	before, wasSecure := originOf(u), isSecure(u)
	username, password := string(u.Username()), string(u.Password())
	isURL := len(location) > 0 && !uri.IsOpaque(location)
	if isURL {
		u.UpdateBytes(location)
	}
	switch string(u.Scheme()) {
	case "http":
		u.SetScheme("ws")
	case "https":
		u.SetScheme("wss")
	}
	u.SetHash("")
	switch {
	case !isURL || portOf(u) == "" || !hasHost(u):
		return "it redirects to no URL of WebSocket"
	case wasSecure && !isSecure(u):
		return "it redirects from wss to ws"
	case originOf(u) != before:
		h.DelCredentials()
		u.SetUsername("")
		u.SetPassword("")
	case len(u.Username()) == 0:
		u.SetUsername(username)
		u.SetPassword(password)
	}
	return ""
}

// originOf returns the origin of the pages of u's server.
func originOf(u *sluice.URI) string {
	scheme := schemeOf(u)
	return scheme + "://" + withoutPort(scheme, string(u.Host()))
}

// schemeOf returns the scheme of the pages of u's server.
func schemeOf(u *sluice.URI) string {
	if isSecure(u) {
		return "https"
	}
	return "http"
}

// open makes the handshake, over HTTP/2 if that is wanted and possible.
func (a *attempt) open(ctx context.Context) (*Conn, error) {
	if client := a.o.Client; client != nil && a.socket == "" {
		c, err := a.openStream(ctx)
		if !errors.Is(err, sluice.ErrNoConnectProtocol) || client.HTTP2 == sluice.HTTP2Only {
			return c, err
		}
	}
	conn, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := a.handshake(ctx, conn)
	if err != nil {
		dial.Cut(conn)
		return nil, err
	}
	return dialed.adopt(ctx, conn, opened)
}

// connect opens the connection for a handshake over HTTP/1.1.
func (a *attempt) connect(ctx context.Context) (net.Conn, error) {
	if a.socket == "" {
		return a.o.connect(ctx, a.url)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", a.socket)
}

// openStream makes the handshake on a stream of HTTP/2 (RFC 8441 section 5).
func (a *attempt) openStream(ctx context.Context) (*Conn, error) {
	a.offer()
	a.req.Header.Del(ws.FieldKey)
	resp := sluice.AcquireResponse() // the Header of a refusal is part of it
	resp.StreamBody = true
	conn, err := a.o.Client.ConnectProtocol(ctx, ws.Token, a.req, resp)
	d := a.newDialed()
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		refused := a.refused(resp, errNoSwitch)
		_ = resp.CloseBodyStream()
		return nil, refused
	}
	if err := d.agree(&resp.Header); err != nil {
		conn.Close()
		return nil, &HandshakeError{Status: resp.StatusCode(), Reason: err.Error(), Header: &resp.Header}
	}
	sluice.ReleaseResponse(resp)
	return dialed.adopt(ctx, conn, d)
}

// newDialed returns what is known before the answer.
func (a *attempt) newDialed() (d dialedConn) {
	d.set = a.set
	d.opening.state, d.opening.stays = a.o.State, true
	if d.set.Endpoint.OnMessage == nil {
		d.opening.loop = dialLoop
	}
	return d
}

// handshake sends the request and checks the answer, until ctx ends.
func (a *attempt) handshake(ctx context.Context, conn net.Conn) (d dialedConn, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if _, isRefused := err.(*HandshakeError); !stop() && err != nil && !isRefused {
			err = context.Cause(ctx)
		}
	}()
	d = a.newDialed()
	var nonce [ws.KeySize]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	key := ws.AppendKey(nil, nonce)
	if err := a.ask(conn, key); err != nil {
		return d, err
	}
	in := acquireAnswerReader(conn)
	defer releaseAnswerReader(in)
	resp := sluice.AcquireResponse() // the Header of a refusal is part of it
	if err := readHead(&resp.Header, in); err != nil {
		return d, err
	}
	if err := d.accept(&resp.Header, key); err != nil {
		if status := resp.StatusCode(); status != sluice.StatusSwitchingProtocols && !a.follows(status) {
			resp.StreamBody = true
			_ = resp.ReadBody(in, 0) // without it, there is no stream
		}
		return d, a.refused(resp, err)
	}
	sluice.ReleaseResponse(resp)
	leftover, _ := in.Peek(in.Buffered())
	d.leftover = slices.Clone(leftover)
	return d, nil
}

// maxInterim is how many interim responses may come before the answer.
const maxInterim = 100

// readHead reads the head of the answer. It skips interim responses (RFC 9110 section 15.2); 101
// is none.
func readHead(h *sluice.ResponseHeader, in *bufio.Reader) error {
	for range maxInterim {
		err := h.Read(in)
		if status := h.StatusCode(); err != nil || status >= sluice.StatusOK || status == sluice.StatusSwitchingProtocols {
			return err
		}
	}
	return errors.New("sluice: websocket: there are too many interim responses")
}

// refused returns the error for an answer that refuses because of reason. It keeps resp.
func (a *attempt) refused(resp *sluice.Response, reason error) *HandshakeError {
	refused := &HandshakeError{Status: resp.StatusCode(), Reason: reason.Error(), Header: &resp.Header}
	if body := resp.BodyStream(); body != nil && !a.follows(refused.Status) {
		refused.Body, _ = io.ReadAll(io.LimitReader(body, maxRefusal))
	}
	return refused
}

// offer sets what does not depend on the version of HTTP: the URI, whose user information the
// request sends as Authorization, and fields.
func (a *attempt) offer() {
	a.req.SetURI(a.url)
	a.req.URI().SetScheme(schemeOf(a.url))
	h := &a.req.Header
	h.SetMethod(sluice.MethodGet)
	h.Set(ws.FieldVersion, ws.Version)
	h.Del(ws.FieldProtocol)
	h.Del(ws.FieldExtensions)
	if all := a.set.Endpoint.Protocols; len(all) > 0 {
		h.Set(ws.FieldProtocol, strings.Join(all, ", "))
	}
	if a.set.Endpoint.Compression != CompressionOff {
		h.SetBytesV(ws.FieldExtensions, a.set.Endpoint.deflates().AppendOffer(nil))
	}
}

// ask sends the request.
func (a *attempt) ask(w io.Writer, key []byte) error {
	a.offer()
	h := &a.req.Header
	h.Set(sluice.HeaderConnection, "Upgrade")
	h.Set(sluice.HeaderUpgrade, ws.Token)
	h.SetBytesV(ws.FieldKey, key)
	_, err := a.req.WriteTo(w)
	return err
}
