package attacks

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// heldStreams is how many requests a connection has open, of those that a server allows: 250.
const heldStreams = 250

// mostConns is how many connections are held at most: servers without a limit hold 64 MiB for each.
const mostConns = 10

// A holding is a way not to take responses of peers.FreshSize bytes.
type holding struct {
	name   string
	window uint32 // of each stream
	isTLS  bool
	more   func(c *client) // after the requests, several times; nil: nothing
}

var allHoldings = []holding{
	{name: "window 0"},
	{name: "window 0, TLS", isTLS: true},
	{name: "windows that grow by 1", window: 1, more: func(c *client) {
		for stream := uint32(1); stream < c.stream; stream += 2 {
			_ = c.frames.WriteWindowUpdate(stream, 1)
		}
		_ = c.frames.WriteWindowUpdate(0, heldStreams)
	}},
	{name: "resets after the answer", more: func(c *client) {
		const part = 20
		for stream := c.stream - 2*part; stream < c.stream; stream += 2 {
			_ = c.frames.WriteRSTStream(stream, http2.ErrCodeCancel)
		}
		c.requests(part)
	}},
}

func (c *client) requests(n int) {
	for range n {
		c.request(true)
		c.stream += 2
	}
}

// measureHeld returns how much memory a server holds for each of some connections.
func (o options) measureHeld(ctx context.Context, h holding, kind string) (each int64, err error) {
	server, err := servers.Start(ctx, servers.Options{
		Options: process.Options{CPU: process.AnyCPU, Procs: 2}, Kind: kind,
		Peer: peers.Options{HTTP2: true, TLS: h.isTLS, Handler: peers.Handler{Mixed: true}},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	warm, err := h.open(ctx, server.Addr)
	if err != nil {
		return 0, err
	}
	_ = warm.Close()
	before, err := settledMemory(ctx, server)
	if err != nil {
		return 0, err
	}
	conns := min(o.conns, mostConns)
	for range conns {
		conn, err := h.open(ctx, server.Addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
	}
	after, err := settledMemory(ctx, server)
	return (after - before) / int64(conns), err
}

// settledMemory returns the server's private memory without garbage, when it does not change any
// more.
func settledMemory(ctx context.Context, server *servers.Server) (now int64, err error) {
	const pause, most = 300 * time.Millisecond, 30
	for range most {
		before := now
		time.Sleep(pause)
		if err := server.Collect(); err != nil {
			return 0, err
		}
		if now, err = server.AnonymousMemory(); err != nil {
			return 0, err
		}
		if d := now - before; ctx.Err() != nil || max(d, -d) < now/100 {
			break
		}
	}
	return now, ctx.Err()
}

// open opens a connection, and makes requests on it. It returns when the server answers the
// first one. What it sends is read.
func (h holding) open(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if h.isTLS {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // the certificate is made for the occasion
	}
	c := newClient()
	c.path = peers.FreshPath + peers.Query
	_, _ = io.WriteString(&c.out, http2.ClientPreface)
	_ = c.frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: h.window})
	_ = c.frames.WriteSettingsAck()
	c.requests(heldStreams)
	if h.more != nil {
		for range 5 {
			h.more(c)
		}
	}
	if _, err := conn.Write(c.out.Bytes()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	for framer := http2.NewFramer(nil, conn); ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if _, isAnswer := frame.(*http2.HeadersFrame); isAnswer {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	return conn, nil
}
