package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
)

// upgradeOf returns the protocol to which a request asks to change, or "" (RFC 9110
// section 7.8).
func upgradeOf(h *sluice.RequestHeader) string {
	for option := range strings.SplitSeq(string(h.Peek("Connection")), ",") {
		if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
			return string(h.Peek("Upgrade"))
		}
	}
	return ""
}

// tunnel forwards a request for an upgrade. If upstream agrees, it copies bytes in
// both directions from then on.
func (p *proxy) tunnel(ctx *sluice.RequestCtx, req *sluice.Request, protocol string) {
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	conn, err := p.connect(ctx)
	if err != nil {
		p.fail(ctx, err)
		return
	}
	reader, err := ask(conn, req, &ctx.Response)
	if err != nil || ctx.Response.StatusCode() != sluice.StatusSwitchingProtocols {
		conn.Close()
		if err != nil {
			ctx.Response.Reset()
			p.fail(ctx, err)
			return
		}
		dropHopByHop(&ctx.Response.Header) // upstream has refused
		return
	}
	ctx.Hijack(func(client net.Conn) {
		defer conn.Close()
		defer client.Close()
		ended := make(chan struct{}, 2)
		go pump(conn, client, ended)
		go pump(client, reader, ended)
		<-ended // when one side has ended, the other must too
	})
}

// pump copies until an error or the end.
func pump(to io.Writer, from io.Reader, ended chan<- struct{}) {
	_, _ = io.Copy(to, from) // an error also ends the tunnel
	ended <- struct{}{}
}

// maxRefusal bounds the body of a response other than 101.
const maxRefusal = 1 << 20

// ask sends req and reads the head of the response and, unless it is 101, the body.
// The returned reader has the bytes after it.
func ask(conn net.Conn, req *sluice.Request, resp *sluice.Response) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := req.WriteTo(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	if err := resp.ReadLimitBody(reader, maxRefusal); err != nil {
		return nil, err
	}
	return reader, conn.SetDeadline(time.Time{})
}

// connect makes a connection outside of the client's pool.
func (p *proxy) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := sluice.DialContext(ctx, sluice.AddMissingPort(p.host, p.upstream.IsTLS))
	if err != nil || !p.upstream.IsTLS {
		return conn, err
	}
	name, _, err := net.SplitHostPort(sluice.AddMissingPort(p.host, true))
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: name})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}
