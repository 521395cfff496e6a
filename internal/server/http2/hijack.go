package http2

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// showUpgrade makes the head of an extended CONNECT for a WebSocket the upgrade of
// HTTP/1.1 that it stands for (RFC 8441 section 5). It reports whether the client has sent a
// key. It needs none, but undici sends one, and checks the answer.
func showUpgrade(h *message.RequestHeader) (isKeyed bool) {
	if !ascii.EqualFold(h.Connect(), "websocket") {
		return false
	}
	h.SetMethod([]byte("GET"))
	h.Put("Connection", []byte("Upgrade"), message.Sets)
	h.Put("Upgrade", []byte("websocket"), message.Sets)
	if len(h.AppendAny(nil, keyName)) > 0 {
		return true
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	h.Put(keyName, base64.StdEncoding.AppendEncode(nil, nonce[:]), message.Sets)
	return false
}

// keyName is a field of the upgrade to a WebSocket (RFC 6455 section 4.1).
const keyName = "Sec-WebSocket-Key"

// hijackedConn is the connection that RequestCtx.Conn and HijackHandlers get of an extended
// CONNECT. Before the response was sent, Write expects a response of HTTP/1.1: that is
// what handlers write that answer on the connection.
type hijackedConn struct {
	net.Conn // tunnel
	tunnel   *Tunnel
	netConn  net.Conn // of the connection
	isKeyed  bool

	mu    sync.Mutex // Write and the answer
	phase tunnelPhase
	head  []byte // the beginning of a response of HTTP/1.1
}

// A tunnelPhase is how far the answer to an extended CONNECT is.
type tunnelPhase uint8

const (
	tunnelAsked    tunnelPhase = iota // there is none
	tunnelAccepted                    // the stream is a tunnel
	tunnelRefused                     // the request has another answer
)

// openTunnel returns x.tunnel.
func (x *Exchange) openTunnel() *hijackedConn {
	if x.tunnel == nil {
		t := x.stream.Tunnel(x.netConn)
		x.tunnel = &hijackedConn{Conn: t, tunnel: t, netConn: x.netConn, isKeyed: x.isKeyed}
	}
	return x.tunnel
}

// useTunnel returns the tunnel to a handler that is running.
func (x *Exchange) useTunnel() *hijackedConn {
	if !x.isExcused {
		x.isExcused = true
		x.stream.Exempt(1) // as hijacked connections, a tunnel needs no worker
	}
	return x.openTunnel()
}

// runHandler calls the handler.
func (x *Exchange) runHandler() server.Outcome {
	defer func() {
		if x.isExcused {
			x.isExcused = false
			x.stream.Exempt(-1)
		}
	}()
	fresh, o := x.request.Serve(x.start)
	x.use(fresh) // if there is none, a goroutine of the handler may be reading the body
	return o
}

// mayHijack reports whether the hijack handler gets a tunnel, or the protocol the stream. If
// not, the response is that of a request that was not hijacked.
func (x *Exchange) mayHijack(o server.Outcome) bool {
	refuse := 0
	switch {
	case !x.connects:
		refuse = statusNotImplemented
	case x.isAccepted:
		return true
	case x.form != nil: // flushed, with another status
	case o == server.OutcomeSilent:
		return true
	case x.cfg.ClosesHijacked && x.host.Stage() != server.StageServing:
		refuse = statusUnavailable
	case server.IsTunnelStatus(x.responseHeader.Status()):
		return true
	}
	x.request.Decline(refuse)
	return false
}

// opensTunnel reports whether the response is that to a hijacked request.
func (x *Exchange) opensTunnel() bool {
	return (x.form.Next == message.UseHijack || x.form.Next == message.UseProtocol) && server.IsTunnelStatus(x.responseHeader.Status())
}

// accept sends the final head, and p as the first bytes of the tunnel.
func (x *Exchange) accept(p []byte) bool {
	x.framing.Length, x.framing.OmitDefaultType = -2, true
	h := x.responseHeader
	if x.form.IsShown {
		h.Show(x.framing)
	}
	if x.tunnel == nil && x.form.Next == message.UseProtocol { // no handler answers itself
		x.isAccepted = x.stream.SendHead(acceptance(h, x.framing, x.isKeyed), false, false)
	} else {
		x.isAccepted = x.openTunnel().answer(h, x.framing)
	}
	return x.isAccepted && (len(p) == 0 || x.stream.Send(p))
}

// hijack answers, unless the handler did, and leaves the stream to the protocol that takes it
// over, or to the hijack handler, on a goroutine of its own.
func (x *Exchange) hijack(o server.Outcome) (outlived bool) {
	switch {
	case o == server.OutcomeSilent:
		if !x.isAccepted {
			server.Add(x.cfg.Meter.Informational, 1) // as for HTTP/1.1
		}
	case !x.isAccepted && !x.respond():
		return false
	}
	if o == server.OutcomeTakeover {
		x.serveProtocol()
		return true
	}
	t, host, handler := x.openTunnel(), x.host, x.request.Hijacker()
	x.leaveRequest()
	if !t.tunnel.Outlive() {
		return false
	}
	go t.serve(handler, host)
	return true
}

// leaveRequest ends the request of a stream that goes on for long, and lets other exchanges
// have the Request.
func (x *Exchange) leaveRequest() {
	x.endRequest()
	spare := newExchange()
	spare.use(x.request)
	x.giveUp()
	exchangePool.Put(spare)
	x.buffer = nil
}

// serveProtocol leaves the stream to the protocol that has taken it over.
func (x *Exchange) serveProtocol() {
	if x.tunnel != nil { // UserConn was called
		x.tunnel.tunnel.Revoke()
	}
	x.stream.ServeProtocol(x.netConn, x.open)
}

// open returns the protocol that has taken the stream over.
func (x *Exchange) open(c engine.Conn, out []byte) (engine.Protocol, []byte) {
	defer x.leaveRequest()
	return x.request.Open(c, out)
}

// giveOver sends the head, and leaves the body to the protocol that has taken it over.
func (x *Exchange) giveOver() (outlived bool) {
	x.request.BeginBody()
	x.stream.Produce(func(c engine.Conn, out []byte) (Producer, []byte) {
		p, out := x.open(c, out)
		producer, _ := p.(Producer)
		return producer, out
	})
	return true
}

// serve runs a hijack handler.
func (t *hijackedConn) serve(handler func(net.Conn), host Host) {
	hasReturned := false
	defer func() {
		if !hasReturned { // it has panicked, or called Goexit
			t.tunnel.Abort()
		}
	}()
	hasReturned = host.RunHijacked(t, handler)
}

// answer sends the final head, once.
func (t *hijackedConn) answer(h *message.ResponseHeader, f message.Framing) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answerLocked(h, f)
}

func (t *hijackedConn) answerLocked(h *message.ResponseHeader, f message.Framing) bool {
	if t.phase != tunnelAsked {
		return false
	}
	t.phase = tunnelRefused
	if server.IsTunnelStatus(h.Status()) {
		t.phase = tunnelAccepted
	}
	return t.tunnel.SendHead(acceptance(h, f, t.isKeyed), false, t.phase == tunnelRefused)
}

// revoke leaves the stream to another answer. It is false if there was one.
func (t *hijackedConn) revoke() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != tunnelAsked {
		return false
	}
	t.phase = tunnelRefused
	t.tunnel.Revoke()
	return true
}

// acceptance returns what is sent of a head that accepts an extended CONNECT, or refuses it.
func acceptance(h *message.ResponseHeader, f message.Framing, isKeyed bool) tunnelHead {
	if !isKeyed {
		h.Del([]byte("Sec-WebSocket-Accept")) // of a key that the client does not know
	}
	return tunnelHead{h, f}
}

// tunnelHead implements Fields for the response to an extended CONNECT: 101
// is 200 there.
type tunnelHead struct {
	header  *message.ResponseHeader
	framing message.Framing
}

// AppendFields implements Fields.
func (t tunnelHead) AppendFields(dst []byte, e *h2.Encoder) []byte {
	if t.header.Status() == statusSwitching {
		t.header.SetStatus(statusOK)
		defer t.header.SetStatus(statusSwitching)
	}
	return t.header.AppendFields(dst, e, t.framing)
}

// Write implements net.Conn.
func (t *hijackedConn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == tunnelAccepted {
		return t.tunnel.Write(p)
	}
	return t.writeHead(p)
}

// CloseWrite ends the output, as that of a *net.TCPConn does; the peer may go on sending. It
// returns net.ErrClosed if the request was not accepted.
func (t *hijackedConn) CloseWrite() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != tunnelAccepted {
		return net.ErrClosed
	}
	return t.tunnel.CloseWrite()
}

// writeHead collects a response of HTTP/1.1, sends its head and what follows it. The
// content of a refusal is dropped.
func (t *hijackedConn) writeHead(p []byte) (int, error) {
	if t.phase == tunnelRefused {
		return 0, net.ErrClosed
	}
	t.head = append(t.head, p...)
	before, after, isWhole := bytes.Cut(t.head, []byte("\r\n\r\n"))
	if !isWhole && len(t.head) <= maxTunnelHead {
		return len(p), nil
	}
	t.head = nil
	var h message.ResponseHeader
	head := bufio.NewReaderSize(bytes.NewReader(append(before, "\r\n\r\n"...)), maxTunnelHead)
	if err := h.Read(head, message.ReaderLimits(head)); err != nil {
		t.phase = tunnelRefused
		t.tunnel.Abort()
		return 0, fmt.Errorf("sluice: over HTTP/2, a hijacked connection begins with a response of HTTP/1.1: %w", err)
	}
	framing := message.Framing{Length: -2, OmitDefaultType: true}
	if status := h.Status(); status < statusOK && status != statusSwitching {
		if !t.tunnel.SendHead(tunnelHead{&h, framing}, true, false) {
			return 0, net.ErrClosed
		}
		if len(after) > 0 { // the next one begins
			_, err := t.writeHead(after)
			return len(p), err
		}
		return len(p), nil
	}
	if !t.answerLocked(&h, framing) {
		return 0, net.ErrClosed
	}
	if t.phase == tunnelAccepted && len(after) > 0 {
		if _, err := t.tunnel.Write(after); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

const (
	statusSwitching      = 101
	statusOK             = 200
	statusNotImplemented = 501
	statusUnavailable    = 503
)

// maxTunnelHead is how long a head may be that is written to a tunnel.
const maxTunnelHead = 16 << 10

// ConnectionState returns the state of a TLS connection.
func (t *hijackedConn) ConnectionState() tls.ConnectionState {
	return tlsStateOf(t.netConn)
}
