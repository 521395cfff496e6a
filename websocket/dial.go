package websocket

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/dial"
	"github.com/sluicehttp/sluice/internal/ws"
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
	// while it waits, unless it uses TLS. Its Check, Origins, Name and Serve are not used.
	// nil: the defaults, with a ReadLimit of 1 MiB. Use one Endpoint for many connections.
	Endpoint *Endpoint
	// State is what Conn.State returns.
	State any
	// Header has more fields of the request, such as Origin, Cookie or Authorization; nil:
	// none. Those that the handshake needs are replaced. It is not modified.
	Header *sluice.RequestHeader
	// Dial connects to addr, "host:port"; nil: sluice.DialContext. Dialers of package
	// fasthttpproxy go through proxies.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// TLSConfig is for wss; nil: the defaults. Dial offers HTTP/1.1 by ALPN.
	TLSConfig *tls.Config
}

// A HandshakeError says that the server has not accepted a connection.
type HandshakeError struct {
	Status int    // of the response; 101 if the handshake breaks a rule
	Reason string // what was wrong
	// Header and Body are those of the response; Body has at most 64 KiB.
	Header *sluice.ResponseHeader
	Body   []byte
}

// Error implements error.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("sluice: websocket: the server has answered with status %d: %s", e.Status, e.Reason)
}

// Dial opens a connection to a URL with the scheme ws or wss (RFC 6455 section 4.1). ctx
// bounds the handshake, which takes at most 30 seconds; after Dial it has no effect. Dial
// follows no redirects.
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
	u, addr, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	defer sluice.ReleaseURI(u)
	conn, err := o.connect(ctx, addr, string(u.Scheme()) == "wss")
	if err != nil {
		return nil, err
	}
	opened, err := o.handshake(ctx, conn, u)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return dialed.adopt(ctx, conn, opened)
}

// parseURL returns a URL that the caller releases, and the address to dial.
func parseURL(url string) (u *sluice.URI, addr string, err error) {
	u = sluice.AcquireURI()
	err = u.Parse(nil, []byte(url))
	port := map[string]string{"ws": "80", "wss": "443"}[string(u.Scheme())]
	switch {
	case err != nil:
	case port == "":
		err = fmt.Errorf("sluice: websocket: the scheme of %q is not ws or wss", url)
	case len(u.Host()) == 0:
		err = fmt.Errorf("sluice: websocket: %q has no host", url)
	case len(u.Hash()) > 0: // RFC 6455 section 3
		err = fmt.Errorf("sluice: websocket: %q has a fragment", url)
	}
	if err != nil {
		sluice.ReleaseURI(u)
		return nil, "", err
	}
	addr = string(u.Host())
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), port)
	}
	return u, addr, nil
}

// connect dials, with TLS if isTLS.
func (o *DialOptions) connect(ctx context.Context, addr string, isTLS bool) (net.Conn, error) {
	connect := o.Dial
	if connect == nil {
		connect = sluice.DialContext
	}
	conn, err := connect(ctx, addr)
	if err != nil || !isTLS {
		return conn, err
	}
	config := &tls.Config{}
	if o.TLSConfig != nil {
		config = o.TLSConfig.Clone()
	}
	config.NextProtos = []string{"http/1.1"}
	secure, err := dial.Handshake(ctx, conn, config, addr)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// A dialedConn is what a handshake has found out.
type dialedConn struct {
	set      *settings
	opening  opening
	protocol string
	leftover []byte // what came after the answer
}

// settings returns those of the Endpoint.
func (o *DialOptions) settings() *settings {
	if o.Endpoint == nil {
		return dialed.defaults.settings()
	}
	return o.Endpoint.settings()
}

// handshake sends the request and checks the answer, until ctx ends.
func (o *DialOptions) handshake(ctx context.Context, conn net.Conn, u *sluice.URI) (d dialedConn, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err != nil {
			err = context.Cause(ctx)
		}
	}()
	d.set = o.settings()
	var nonce [ws.KeySize]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	key := ws.AppendKey(nil, nonce)
	if err := o.ask(conn, u, key, d.set); err != nil {
		return d, err
	}
	in := acquireAnswerReader(conn)
	defer releaseAnswerReader(in)
	resp := sluice.AcquireResponse()
	defer sluice.ReleaseResponse(resp)
	if err := resp.Header.Read(in); err != nil {
		return d, err
	}
	if err := d.accept(&resp.Header, key); err != nil {
		refused := &HandshakeError{Status: resp.StatusCode(), Reason: err.Error(), Header: &sluice.ResponseHeader{}}
		resp.Header.CopyTo(refused.Header)
		if resp.StatusCode() != sluice.StatusSwitchingProtocols {
			if err := resp.ReadBody(in, maxRefusal); err == nil {
				refused.Body = slices.Clone(resp.Body())
			}
		}
		return d, refused
	}
	leftover, _ := in.Peek(in.Buffered())
	d.leftover = slices.Clone(leftover)
	d.opening.state, d.opening.stays = o.State, true
	if d.set.Endpoint.OnMessage == nil {
		d.opening.loop = dialLoop
	}
	return d, nil
}

// ask sends the request.
func (o *DialOptions) ask(w io.Writer, u *sluice.URI, key []byte, set *settings) error {
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	h := &req.Header
	if o.Header != nil {
		o.Header.CopyTo(h)
	}
	h.SetMethod(sluice.MethodGet)
	h.SetRequestURIBytes(u.RequestURI())
	h.SetHostBytes(u.Host())
	h.Set(sluice.HeaderConnection, "Upgrade")
	h.Set(sluice.HeaderUpgrade, ws.Token)
	h.Set(ws.FieldVersion, ws.Version)
	h.SetBytesV(ws.FieldKey, key)
	h.Del(ws.FieldProtocol)
	h.Del(ws.FieldExtensions)
	if all := set.Endpoint.Protocols; len(all) > 0 {
		h.Set(ws.FieldProtocol, strings.Join(all, ", "))
	}
	if set.Endpoint.Compression != CompressionOff {
		h.SetBytesV(ws.FieldExtensions, set.Endpoint.deflates().AppendOffer(nil))
	}
	_, err := w.Write(h.Header())
	return err
}

// accept checks the answer (RFC 6455 section 4.1).
func (d *dialedConn) accept(h *sluice.ResponseHeader, key []byte) error {
	if h.StatusCode() != sluice.StatusSwitchingProtocols {
		return errors.New("it does not switch to WebSocket")
	}
	if !hasToken(h.PeekAll(sluice.HeaderConnection), "upgrade") || !hasToken(h.PeekAll(sluice.HeaderUpgrade), ws.Token) {
		return errors.New("it does not upgrade to WebSocket")
	}
	if accepts := h.PeekAll(ws.FieldAccept); len(accepts) != 1 || string(accepts[0]) != string(ws.AppendAccept(nil, key)) {
		return errors.New("its " + ws.FieldAccept + " is wrong")
	}
	if chosen := h.PeekAll(ws.FieldProtocol); len(chosen) > 0 {
		d.protocol = string(chosen[0])
		if len(chosen) > 1 || !slices.Contains(d.set.Endpoint.Protocols, d.protocol) {
			return fmt.Errorf("the subprotocol %q was not offered", d.protocol)
		}
	}
	extensions := joined(h.PeekAll(ws.FieldExtensions))
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
