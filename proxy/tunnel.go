package proxy

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// errOtherProtocol is the error of a change to a protocol for which the client has not asked (RFC
// 9110 section 7.8).
var errOtherProtocol = errors.New("sluice: the upstream changes to a protocol for which the client has not asked")

// tunnel forwards a request to change the protocol. If the upstream agrees, bytes go in both
// directions from then on. Otherwise its response is like any other.
func (x *exchange) tunnel(protocol string) error {
	x.req.Header.Add(sluice.HeaderConnection, "Upgrade") // TE may be there
	x.req.Header.Set(sluice.HeaderUpgrade, protocol)
	x.resp.Reset() // of the settings that a request without a tunnel has left
	x.resp.OnInterim = x.onInterim
	conn, early, err := x.ask(protocol)
	if err != nil {
		return err
	}
	isGiven := false
	defer func() {
		if !isGiven && conn != nil { // a hook may panic
			conn.Close()
		}
	}()
	if x.resp.StatusCode() != sluice.StatusSwitchingProtocols {
		return x.answer()
	}
	chosen := x.resp.Header.Peek(sluice.HeaderUpgrade)
	if len(chosen) == 0 || !ascii.HasMember([]byte(protocol), string(chosen)) {
		return errOtherProtocol
	}
	out := &x.ctx.Response
	x.copyHead(&x.resp.Header)
	out.Header.Set(sluice.HeaderConnection, "Upgrade")
	out.Header.SetBytesV(sluice.HeaderUpgrade, chosen)
	x.stick(x.pick.Member.Client)
	if hook := x.proxy.options.Response; hook != nil {
		if err := hook(x.ctx); err != nil {
			return hookError{err}
		}
	}
	isGiven = true
	x.connect(conn, early)
	return nil
}

// connect makes a tunnel of the client's connection and conn, when Handle has returned and
// the response is sent.
func (x *exchange) connect(conn net.Conn, early []byte) {
	u := x.pick.Member.Client
	x.isBusy = false // until the end of the tunnel
	end := func() { u.ended.Add(1) }
	x.taker.OnPeerGone(nil)
	if !isSocket(conn) || x.takeOver(opening{upstream: u, conn: conn, early: early}) != nil {
		x.ctx.Hijack(func(client net.Conn) {
			defer end()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				pump(conn, client, nil)
			}()
			pump(client, conn, early)
			<-ended
		})
	}
	upgrade.OnHijackDropped(x.ctx, func() { // the client is gone, or middleware has another response
		conn.Close()
		end()
	})
}

// takeOver makes the client's connection the end of a splice, when Handle has returned. It fails
// if that is not on an event engine.
func (x *exchange) takeOver(o opening) error {
	t := upgrade.Takeover{
		Family: spliceFamily{}, NeedsTarget: true, WritesBody: o.events != nil,
		Status: sluice.StatusSwitchingProtocols,
		Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
			return h.(*spliceHost).open(c, o, out)
		},
	}
	if o.events != nil {
		t.Status = sluice.StatusOK // middleware may set any fields
	}
	return upgrade.TakeOver(x.ctx, t)
}

// isSocket reports whether event engines can adopt conn.
func isSocket(conn net.Conn) bool {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// pump writes early, and copies from one end of a tunnel to the other until an error or the
// end. Then it closes both: when one side has ended, the other must too.
func pump(to, from net.Conn, early []byte) {
	var err error
	if len(early) > 0 {
		_, err = to.Write(early)
	}
	if err == nil {
		_, _ = copyLean(to, from) // an error also ends the tunnel
	}
	to.Close()
	from.Close()
}

// ask asks an upstream for a tunnel. See open for the results.
func (x *exchange) ask(protocol string) (conn net.Conn, early []byte, err error) {
	for attempt := 1; ; attempt++ {
		x.begin(x.choose())
		u := x.pick.Member.Client
		if x.namesUpstream {
			x.req.Header.SetHost(u.host)
		}
		conn, early, isSent, err := x.open(u, protocol)
		switch {
		case err == nil:
			x.judge(balance.Good)
			return conn, early, nil
		case x.isEnded():
			return nil, nil, err
		case !errors.Is(err, sluice.ErrNoFreeConns): // see send
			u.failed.Add(1)
			x.judge(balance.Bad)
		}
		x.end()
		if isSent || attempt >= x.proxy.options.Attempts || len(x.tried) >= len(x.proxy.options.To) {
			return nil, nil, err
		}
	}
}

// exchangeOn sends the request on conn and reads the head of the response. early are the bytes after
// that. If there is a body, conn is x.refused's then.
func (x *exchange) exchangeOn(conn net.Conn) (early []byte, err error) {
	o := &x.proxy.options
	if err := conn.SetDeadline(time.Now().Add(o.Timeout)); err != nil {
		return nil, err
	}
	r := &refusal{conn: conn, stop: x.AfterFunc(func() { conn.Close() })}
	reader := acquireReader(r, max(o.MaxHead, blockSize))
	defer func() {
		if x.refused == nil {
			r.stop()
			releaseReader(reader)
		}
	}()
	if _, err := x.req.WriteTo(conn); err != nil {
		return nil, err
	}
	x.resp.SkipBody, x.resp.StreamBody = x.req.Header.IsHead(), true
	if err := x.resp.ReadLimitBody(reader, 0); err != nil {
		return nil, err
	}
	if x.resp.IsBodyStream() {
		r.timeout = o.Timeout
		x.refused = r
		return nil, nil
	}
	if !r.stop() { // the client has disconnected
		return nil, net.ErrClosed
	}
	early = make([]byte, reader.Buffered())
	_, _ = io.ReadFull(reader, early) // they are there
	return early, conn.SetDeadline(time.Time{})
}

// A refusal is the connection of a response that has a body and does not change the protocol. The
// body is read from it.
type refusal struct {
	conn    net.Conn
	stop    func() bool   // what closes conn when the client disconnects
	timeout time.Duration // of each Read; 0: conn has a deadline
}

// Read implements io.Reader.
func (r *refusal) Read(p []byte) (int, error) {
	if r.timeout > 0 {
		if err := r.conn.SetReadDeadline(time.Now().Add(r.timeout)); err != nil {
			return 0, err
		}
	}
	return r.conn.Read(p)
}

func (r *refusal) close() {
	r.stop()
	r.conn.Close()
}
