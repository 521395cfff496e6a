package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/wire/uri"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// An attempt is one handshake of Dial.
type attempt struct {
	o         *DialOptions
	set       *settings
	url       *sluice.URI
	socket    string          // the Unix socket to connect to; "": the host of url
	req       *sluice.Request // with the fields of DialOptions.Header
	mayFollow bool            // a redirect
}

// follows tells whether a response is a redirect that is followed.
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

// A dialedConn is what a handshake has found out.
type dialedConn struct {
	set      *settings
	opening  opening
	protocol string
	leftover []byte // what came after the answer
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

// errNoSwitch is why an answer without a WebSocket is refused.
var errNoSwitch = errors.New("it does not switch to WebSocket")

// accept checks the answer (RFC 6455 section 4.1).
func (d *dialedConn) accept(h *sluice.ResponseHeader, key []byte) error {
	if h.StatusCode() != sluice.StatusSwitchingProtocols {
		return errNoSwitch
	}
	if !hasToken(values(h, sluice.HeaderConnection), "upgrade") || !hasToken(values(h, sluice.HeaderUpgrade), ws.Token) {
		return errors.New("it does not upgrade to WebSocket")
	}
	if accepts := values(h, ws.FieldAccept); len(accepts) != 1 || string(accepts[0]) != string(ws.AppendAccept(nil, key)) {
		return errors.New("its " + ws.FieldAccept + " is wrong")
	}
	return d.agree(h)
}

// agree checks what the server has chosen.
func (d *dialedConn) agree(h *sluice.ResponseHeader) error {
	if chosen := values(h, ws.FieldProtocol); len(chosen) > 0 {
		d.protocol = string(chosen[0])
		if len(chosen) > 1 || !slices.Contains(d.set.Endpoint.Protocols, d.protocol) {
			return fmt.Errorf("the subprotocol %q was not offered", d.protocol)
		}
	}
	extensions := joined(values(h, ws.FieldExtensions))
	if d.set.Endpoint.Compression == CompressionOff {
		if len(extensions) > 0 {
			return errors.New("no extension was offered")
		}
		return nil
	}
	deflate, isOn, ok := d.set.Endpoint.deflates().ParseAnswer(extensions)
	if !ok {
		return errors.New("its extension was not offered")
	}
	if isOn {
		d.opening.out, d.opening.in = deflate.Client(), deflate.Server()
	}
	return nil
}

// joined returns the values of a field that is a list.
func joined(values [][]byte) (list []byte) {
	for i, v := range values {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = append(list, v...)
	}
	return list
}
