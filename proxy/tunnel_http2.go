package proxy

import (
	"errors"
	"net"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// open asks u for a tunnel, and reads the head of the response. early are the bytes after it. conn may
// be nil if u refuses. isSent: u may have got the request.
func (x *exchange) open(u *upstream, protocol string) (conn net.Conn, early []byte, isSent bool, err error) {
	if u.client.HTTP2 == sluice.HTTP2Only && strings.EqualFold(protocol, "websocket") && x.asksForWebSocket() {
		conn, err = x.openStream(u)
		if !errors.Is(err, sluice.ErrNoConnectProtocol) {
			return conn, nil, err == nil || !isUnsent(err), err
		}
	}
	if conn, err = u.connect(x); err != nil {
		return nil, nil, false, err
	}
	if early, err = x.exchangeOn(conn); err != nil {
		conn.Close()
		return nil, nil, true, err
	}
	if x.refused != nil {
		conn = nil
	}
	return conn, early, true, nil
}

// asksForWebSocket reports whether the request has what a stream of HTTP/2 does not tell the
// upstream (RFC 6455 section 4.2.1). Without it, the upstream has to refuse.
func (x *exchange) asksForWebSocket() bool {
	_, hasKey := ws.ParseKey(x.req.Header.Peek(ws.FieldKey))
	return hasKey && x.req.Header.IsGet() && len(x.req.Body()) == 0
}

// openStream asks u for a WebSocket on a stream of HTTP/2 (RFC 8441 section 5), and makes the
// answer that of HTTP/1.1.
func (x *exchange) openStream(u *upstream) (net.Conn, error) {
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	x.req.CopyTo(req)
	req.UseHostHeader = true
	for _, name := range [...]string{sluice.HeaderConnection, sluice.HeaderUpgrade, ws.FieldKey} {
		req.Header.Del(name)
	}
	x.aim(req, u)
	stream, err := u.client.ConnectProtocol(x, "websocket", req, x.resp)
	if err != nil || stream == nil {
		return nil, err
	}
	h := &x.resp.Header
	h.SetStatusCode(sluice.StatusSwitchingProtocols)
	h.Set(sluice.HeaderUpgrade, "websocket")
	h.SetBytesV(ws.FieldAccept, ws.AppendAccept(nil, x.req.Header.Peek(ws.FieldKey)))
	return stream, nil
}
