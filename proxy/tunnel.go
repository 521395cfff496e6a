package proxy

import (
	"bufio"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// maxRefusal bounds the body of a response other than 101.
const maxRefusal = 1 << 20

// tunnel forwards a request to change the protocol. If the upstream agrees, bytes go in both
// directions from then on.
func (x *exchange) tunnel(protocol string) error {
	if len(x.ctx.PostBody()) > 0 {
		x.ctx.Error("a request for another protocol has no body here", sluice.StatusBadRequest)
		return nil
	}
	x.req.Header.Set(sluice.HeaderConnection, "Upgrade")
	x.req.Header.Set(sluice.HeaderUpgrade, protocol)
	conn, reader, err := x.ask()
	if err != nil {
		return err
	}
	if x.resp.StatusCode() != sluice.StatusSwitchingProtocols {
		conn.Close()
		x.copyHead(&x.resp.Header)
		x.ctx.Response.SetBody(x.resp.Body())
		return nil
	}
	x.copyHead(&x.resp.Header)
	x.ctx.Response.Header.Set(sluice.HeaderConnection, "Upgrade")
	for _, chosen := range x.resp.Header.PeekAll(sluice.HeaderUpgrade) {
		x.ctx.Response.Header.SetBytesV(sluice.HeaderUpgrade, chosen)
	}
	if hook := x.proxy.options.Response; hook != nil {
		if err := hook(x.ctx); err != nil {
			conn.Close()
			return hookError{err}
		}
	}
	u := x.pick.Member.Client
	x.isBusy = false // until the end of the tunnel
	upgrade.OnPeerGone(x.ctx, nil)
	end := func() {
		conn.Close()
		u.pending.Add(-1)
	}
	x.ctx.Hijack(func(client net.Conn) {
		defer end()
		defer client.Close()
		ended := make(chan struct{}, 2)
		go pump(conn, client, ended)
		go pump(client, reader, ended)
		<-ended // when one side has ended, the other must too
	})
	return nil
}

// pump copies until an error or the end.
func pump(to io.Writer, from io.Reader, ended chan<- struct{}) {
	_, _ = io.Copy(to, from) // an error also ends the tunnel
	ended <- struct{}{}
}

// ask sends the request to an upstream on a connection of its own, and reads the head of the
// response and, unless that is 101, the body. The reader has the bytes after it.
func (x *exchange) ask() (net.Conn, *bufio.Reader, error) {
	for attempt := 1; ; attempt++ {
		x.begin(x.choose())
		u := x.pick.Member.Client
		u.sent.Add(1)
		if x.proxy.options.RewriteHost {
			x.req.Header.SetHost(u.host)
		}
		conn, err := u.connect(x)
		isSent := err == nil
		if isSent {
			var reader *bufio.Reader
			if reader, err = x.exchangeOn(conn); err == nil {
				x.judge(balance.Good)
				return conn, reader, nil
			}
			conn.Close()
		}
		if x.isEnded() {
			return nil, nil, err
		}
		u.failed.Add(1)
		x.judge(balance.Bad)
		x.end()
		if isSent || attempt >= x.proxy.options.Attempts || len(x.tried) >= len(x.proxy.options.To) {
			return nil, nil, err
		}
	}
}

// exchangeOn sends the request on conn and reads the response.
func (x *exchange) exchangeOn(conn net.Conn) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(x.proxy.options.Timeout)); err != nil {
		return nil, err
	}
	stop := x.AfterFunc(func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := x.req.WriteTo(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(conn, x.proxy.options.MaxHead)
	x.resp.SkipBody = x.req.Header.IsHead()
	if err := x.resp.ReadLimitBody(reader, maxRefusal); err != nil {
		return nil, err
	}
	if !stop() { // the client has disconnected
		return nil, net.ErrClosed
	}
	return reader, conn.SetDeadline(time.Time{})
}
