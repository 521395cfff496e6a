package http3

import (
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/streams"
)

// openTunnel returns x.tunnel.
func (x *exchange) openTunnel() *streams.HijackedConn {
	if x.tunnel == nil {
		x.isTunnel = true
		x.tunnel = streams.NewHijackedConn(newTunnel(x), x.conn.net, x.isKeyed)
	}
	return x.tunnel
}

// useTunnel returns the tunnel to a handler that is running.
func (x *exchange) useTunnel() *streams.HijackedConn {
	if !x.isExempt {
		x.isExempt = true
		x.conn.workers.Exempt(1) // as hijacked connections, a tunnel needs no worker
	}
	return x.openTunnel()
}

// runHandler calls the handler.
func (x *exchange) runHandler() server.Outcome {
	defer func() {
		if x.isExempt {
			x.isExempt = false
			x.conn.workers.Exempt(-1)
		}
	}()
	fresh, o := x.request.Serve(x.start)
	x.use(fresh) // if there is none, a goroutine of the handler may be reading the body
	return o
}

// mayHijack is Leaving.May for the request of x.
func (x *exchange) mayHijack(o server.Outcome) bool {
	return streams.Leaving{
		Outcome: o, IsConnect: x.connects, IsAccepted: x.isAccepted, HasHead: x.form != nil,
		IsEnding: x.conn.serving.cfg.ClosesHijacked && x.conn.serving.attachment.Stage() != server.StageServing,
		Status:   x.responseHeader.Status(),
	}.May(x.request)
}

// accept sends the final head, and p as the first bytes of the tunnel.
func (x *exchange) accept(p []byte) bool {
	x.framing.Length, x.framing.OmitDefaultType = -2, true
	h := x.responseHeader
	if x.form.IsShown {
		h.Show(x.framing)
	}
	if x.tunnel == nil && x.form.Next == message.UseProtocol { // no handler answers itself
		x.isAccepted = x.sendHead(streams.Acceptance(h, x.framing, x.isKeyed), false, false)
	} else {
		x.isAccepted = x.openTunnel().Answer(h, x.framing)
	}
	return x.isAccepted && x.send(p) && x.flush()
}

// hijack answers, unless the handler did, and leaves the stream to the protocol that takes it
// over, or to the hijack handler, on a goroutine of its own.
func (x *exchange) hijack(o server.Outcome) (outlived bool) {
	switch {
	case o == server.OutcomeSilent:
		if !x.isAccepted {
			server.Add(x.conn.serving.cfg.Meter.Informational, 1) // as for HTTP/1.1
		}
	case !x.isAccepted && !x.respond():
		return false
	}
	if o == server.OutcomeTakeover {
		if x.tunnel != nil { // UserConn was called
			x.tunnel.Tunnel.Revoke()
		}
		t := newTunnel(x)
		t.isOwner = true
		return x.serveProtocol(t)
	}
	t := x.openTunnel()
	handler, drop := x.request.Hijacker()
	x.endRequest()
	x.letGo()
	if !t.Tunnel.Outlive() {
		drop()
		return false
	}
	go t.Serve(handler, x.conn.serving.attachment.RunHijacked)
	return true
}

// giveOver sends the head, and leaves the body to the protocol that has taken it over.
func (x *exchange) giveOver() (outlived bool) {
	x.request.BeginBody()
	if !x.flush() {
		return false
	}
	return x.serveProtocol(newBodyConn(x))
}

// serveProtocol leaves the stream to the protocol that the request has been left to.
func (x *exchange) serveProtocol(c net.Conn) (outlived bool) {
	x.isTunnel = true
	attachment := x.conn.serving.attachment
	attachment.Transferred(x.bytesRead, x.bytesWritten)
	x.isCounted = true
	go func() {
		_ = attachment.ServeProtocol(c, x.openProtocol)
		_ = c.Close() // it is closed, unless the server has ended
	}()
	return true
}

// openProtocol returns the protocol that has taken the stream over.
func (x *exchange) openProtocol(c engine.Conn, out []byte) (engine.Protocol, []byte) {
	defer x.letGo()
	defer x.endRequest() // others may have it while the stream goes on
	return x.request.Open(c, out)
}

// endTunnel is the last call for a stream that has outlived its request. Late calls of its
// net.Conn find that it is closed, so no other request gets the exchange.
func (x *exchange) endTunnel() {
	x.endRequest() // unless openProtocol was called
	x.conn.ended(x)
}
