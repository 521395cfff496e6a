package websocket

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// Upgrade answers a handshake (RFC 6455 section 4.2). When the handler returns, the
// connection belongs to e. state is what Conn.State returns; it may be nil. Header fields
// that the handler has set are part of the answer.
//
// Upgrade answers what it refuses, and returns an error, usually a *StatusError: 400 for a
// handshake that breaks the rules, 403 for a forbidden origin, 405 for methods other than
// GET, 426 for requests of something else or of another version, 501 for an extended CONNECT
// with another protocol, and 503 while the server shuts down.
//
// It does not change the response, and returns sluice.ErrHeadSent, after Flush;
// sluice.ErrTakenOver if the connection is another protocol's already, or a HijackHandler's; and
// sluice.ErrNilConnection after TimeoutError.
//
// After Upgrade, the response has no body. A handler that replaces the response, as by Error,
// answers the handshake with that: then e does not get the connection.
func (e *Endpoint) Upgrade(ctx *sluice.RequestCtx, state any) error {
	return e.upgrade(ctx, opening{state: state})
}

// Accept is Upgrade for programs that prefer a loop. serve runs on its own goroutine and
// owns the connection until it returns, which closes the connection: with CodeNormal, or
// with the code of the *CloseError that serve returns, or with CodeInternal for other
// errors. The callbacks of e are not called, except Check.
//
// If serve is nil, it is Endpoint.Serve; only then the connection can move to another
// process.
//
// serve must call Conn.Read: while a message waits for it, the connection answers no pings
// and does not notice the end of its peer.
func (e *Endpoint) Accept(ctx *sluice.RequestCtx, serve func(c *Conn) error) error {
	var o opening // with callbacks, if there is no function
	switch {
	case serve != nil:
		o.loop, o.serve = acceptLoop, serve
	case e.Serve != nil:
		o.loop, o.serve = serveLoop, e.Serve
	}
	return e.upgrade(ctx, o)
}

func (e *Endpoint) upgrade(ctx *sluice.RequestCtx, o opening) error {
	if err := upgrade.TakeOver(ctx, upgrade.Takeover{}); err != nil {
		return err
	}
	set := e.settings()
	refusal := set.check(ctx)
	if refusal == nil && e.Check != nil {
		refusal = refusalOf(e.Check(ctx))
	}
	if refusal != nil {
		refuse(ctx, refusal)
		return refusal
	}
	o.overHTTP2 = ctx.ProtoMajor() == 2 // HTTP/3 gives it a connection with a goroutine of its own
	o.protocol = set.choose(ctx)
	deflate, deflates := set.negotiate(ctx)
	if deflates {
		o.out, o.in = deflate.Server(), deflate.Client()
	}
	err := upgrade.TakeOver(ctx, upgrade.Takeover{Family: set, Status: sluice.StatusSwitchingProtocols, Name: sluice.HeaderUpgrade, Value: ws.Token, Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
		o.stays = !c.CanMove()
		return h.(*host).open(c, out, o)
	}})
	switch {
	case errors.Is(err, sluice.ErrServerClosed):
		refuse(ctx, &StatusError{Status: sluice.StatusServiceUnavailable, Text: "the server shuts down"})
		return err
	case err != nil:
		refuse(ctx, &StatusError{Status: sluice.StatusNotImplemented, Text: "this request cannot become a WebSocket"})
		return err
	}
	o.ended = upgrade.Watched(ctx) // before Open, which is called later
	h := &ctx.Response.Header
	ctx.Response.ResetBody()
	ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
	h.Set(sluice.HeaderConnection, "Upgrade")
	h.Set(sluice.HeaderUpgrade, ws.Token)
	var accept [28]byte // base64 of SHA-1
	h.SetBytesV(ws.FieldAccept, ws.AppendAccept(accept[:0], value(&ctx.Request.Header, ws.FieldKey)))
	h.Del(ws.FieldProtocol)
	h.Del(ws.FieldExtensions)
	if deflates {
		h.SetBytesV(ws.FieldExtensions, ws.AppendDeflate(nil, deflate))
	}
	if o.protocol > 0 {
		h.Set(ws.FieldProtocol, e.Protocols[o.protocol-1])
	}
	return nil
}

// check returns why the handshake is refused, nil if it is not.
func (set *settings) check(ctx *sluice.RequestCtx) *StatusError {
	r := &ctx.Request.Header
	isUpgrade := hasToken(values(r, sluice.HeaderConnection), "upgrade") && hasToken(values(r, sluice.HeaderUpgrade), ws.Token)
	isConnect := len(r.ConnectProtocol()) > 0 // then the key is not processed (RFC 8441 section 5)
	keys, versions, origins := values(r, ws.FieldKey), values(r, ws.FieldVersion), values(r, sluice.HeaderOrigin)
	switch {
	case isConnect && !isUpgrade: // RFC 9220 section 3
		return &StatusError{sluice.StatusNotImplemented, "the protocol of this endpoint is " + ws.Token}
	case !ctx.IsGet():
		return &StatusError{sluice.StatusMethodNotAllowed, "WebSocket needs the method GET"}
	case !isUpgrade:
		return &StatusError{sluice.StatusUpgradeRequired, "this is a WebSocket endpoint"}
	case !ctx.Request.Header.IsHTTP11() || ctx.Request.ConnectionClose() || len(ctx.Request.Body()) > 0:
		return &StatusError{sluice.StatusBadRequest, "WebSocket needs HTTP/1.1, a connection that stays open, and no body"}
	case len(versions) > 1 || len(origins) > 1: // a proxy may have checked the other one
		return &StatusError{sluice.StatusBadRequest, "there must be one " + ws.FieldVersion + " and one Origin"}
	case len(versions) == 0 || string(versions[0]) != ws.Version:
		return &StatusError{sluice.StatusUpgradeRequired, "the version of WebSocket must be " + ws.Version}
	case len(keys) != 1 && !isConnect:
		return &StatusError{sluice.StatusBadRequest, "there must be one " + ws.FieldKey}
	}
	if !isConnect {
		if _, ok := ws.ParseKey(keys[0]); !ok {
			return &StatusError{sluice.StatusBadRequest, ws.FieldKey + " must be 16 bytes in base64"}
		}
	}
	if len(origins) > 0 && len(origins[0]) > 0 && !set.allows(string(origins[0]), string(r.Host()), ctx.IsTLS()) {
		return &StatusError{sluice.StatusForbidden, "pages of this origin may not connect"}
	}
	return nil
}

// values returns the values of the fields of that name in any spelling: a header that
// keeps names, for example that of Server.DisableHeaderNamesNormalizing, can have several.
func values(h interface {
	All() iter.Seq2[[]byte, []byte]
}, name string) [][]byte {
	return upgrade.Values(h.All(), name)
}

// value returns the first of values, nil if there is none.
func value(h interface {
	All() iter.Seq2[[]byte, []byte]
}, name string) []byte {
	if found := values(h, name); len(found) > 0 {
		return found[0]
	}
	return nil
}

// hasToken reports whether one of the lists, which are the values of a field, has token.
func hasToken(lists [][]byte, token string) bool {
	return slices.ContainsFunc(lists, func(list []byte) bool { return ws.HasToken(list, token) })
}

// choose returns the index of the subprotocol in Endpoint.Protocols, plus 1; 0: none.
func (set *settings) choose(ctx *sluice.RequestCtx) uint8 {
	for i, protocol := range set.protocols() {
		for _, list := range values(&ctx.Request.Header, ws.FieldProtocol) {
			for len(list) > 0 {
				var offer []byte
				if offer, list = ws.NextMember(list, ','); string(offer) == protocol {
					return uint8(i + 1)
				}
			}
		}
	}
	return 0
}

// refusalOf returns the answer for an error of Check.
func refusalOf(err error) *StatusError {
	var refusal *StatusError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refusal):
		return &StatusError{Status: sluice.StatusForbidden, Text: "the connection is refused"}
	case refusal.Status == 0:
		return &StatusError{Status: sluice.StatusForbidden, Text: refusal.Text}
	}
	return refusal
}

// refuse makes the response to a handshake that is refused.
func refuse(ctx *sluice.RequestCtx, refusal *StatusError) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(refusal.Status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(refusal.Text)
	switch refusal.Status {
	case sluice.StatusUpgradeRequired: // RFC 9110 section 15.5.22, RFC 6455 section 4.4
		h.Set(sluice.HeaderConnection, "Upgrade")
		h.Set(sluice.HeaderUpgrade, ws.Token)
		h.Set(ws.FieldVersion, ws.Version)
	case sluice.StatusMethodNotAllowed:
		h.Set(sluice.HeaderAllow, "GET")
	}
}

// allows reports whether pages of origin may connect to host.
func (set *settings) allows(origin, host string, isTLS bool) bool {
	scheme, authority, ok := cutOrigin(origin)
	if ok && (scheme == "https" || scheme == "http" && !isTLS) && authority == withoutPort(scheme, strings.ToLower(host)) {
		return true
	}
	for _, allowed := range set.Endpoint.Origins {
		if allowed == "*" {
			return true
		}
		s, a, isOrigin := cutOrigin(allowed)
		if !ok || !isOrigin || s != scheme {
			continue
		}
		if domain, isWild := strings.CutPrefix(a, "*."); a == authority || isWild && strings.HasSuffix(authority, "."+domain) {
			return true
		}
	}
	return false
}

// cutOrigin splits an origin (RFC 6454 section 6.2), without a port that its scheme
// implies.
func cutOrigin(origin string) (scheme, authority string, ok bool) {
	scheme, authority, ok = strings.Cut(strings.ToLower(origin), "://")
	return scheme, withoutPort(scheme, authority), ok && authority != ""
}

// withoutPort removes the port of scheme.
func withoutPort(scheme, authority string) string {
	if scheme == "https" {
		return strings.TrimSuffix(authority, ":443")
	}
	return strings.TrimSuffix(authority, ":80")
}

// negotiate returns the answer to the first acceptable offer of compression. isOn is false
// if there is none.
func (set *settings) negotiate(ctx *sluice.RequestCtx) (answer ws.Deflate, isOn bool) {
	if set.Endpoint.Compression == CompressionOff {
		return ws.Deflate{}, false
	}
	for _, list := range values(&ctx.Request.Header, ws.FieldExtensions) {
		if offer, _, ok := ws.NextDeflate(list); ok {
			return set.Endpoint.deflates().Answer(offer), true
		}
	}
	return ws.Deflate{}, false
}

var _ upgrade.Host = (*host)(nil)

func newHost(set *settings, s upgrade.Server) *host {
	return &host{settings: set, server: s, mark: s.Memo(0, 0, 0).Served, life: s.Life()}
}

// NewHost implements upgrade.Family.
func (set *settings) NewHost(s upgrade.Server) upgrade.Host {
	h := newHost(set, s)
	set.counting.Lock()
	defer set.counting.Unlock()
	set.hosts = append(set.hosts, h)
	return h
}
