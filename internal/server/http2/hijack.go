package http2

import (
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/streams"
)

// openTunnel returns x.tunnel.
func (x *Exchange) openTunnel() *streams.HijackedConn {
	if x.tunnel == nil {
		x.tunnel = streams.NewHijackedConn(x.stream.Tunnel(x.netConn), x.netConn, x.isKeyed)
	}
	return x.tunnel
}

// useTunnel returns the tunnel to a handler that is running.
func (x *Exchange) useTunnel() *streams.HijackedConn {
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

// mayHijack is Leaving.May for the request of x.
func (x *Exchange) mayHijack(o server.Outcome) bool {
	return streams.Leaving{
		Outcome: o, IsConnect: x.connects, IsAccepted: x.isAccepted, HasHead: x.form != nil,
		IsEnding: x.cfg.ClosesHijacked && x.host.Stage() != server.StageServing,
		Status:   x.responseHeader.Status(),
	}.May(x.request)
}

// accept sends the final head, and p as the first bytes of the tunnel.
func (x *Exchange) accept(p []byte) bool {
	x.framing.Length, x.framing.OmitDefaultType = -2, true
	h := x.responseHeader
	if x.form.IsShown {
		h.Show(x.framing)
	}
	if x.tunnel == nil && x.form.Next == message.UseProtocol { // no handler answers itself
		x.isAccepted = x.stream.SendHead(streams.Acceptance(h, x.framing, x.isKeyed), false, false)
	} else {
		x.isAccepted = x.openTunnel().Answer(h, x.framing)
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
	t, host := x.openTunnel(), x.host
	handler, drop := x.request.Hijacker()
	x.leaveRequest()
	if !t.Tunnel.Outlive() {
		drop()
		return false
	}
	go t.Serve(handler, host.RunHijacked)
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
		x.tunnel.Tunnel.Revoke()
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
