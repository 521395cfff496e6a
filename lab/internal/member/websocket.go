//go:build linux

package member

import (
	"io"
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/ws"
	"github.com/sluicehttp/sluice/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tcp"
)

// upgrade answers a client's handshake (RFC 6455 section 4.2) and moves the
// connection to the TCP server, which has it from then on: on event loops it
// needs a goroutine for the time of the move only.
func (s *server) upgrade(ctx *sluice.RequestCtx) {
	h := &ctx.Request.Header
	key := h.Peek(ws.FieldKey)
	_, isKey := ws.ParseKey(key)
	switch {
	case !ctx.IsGet(), !h.ConnectionUpgrade(), !ws.HasToken(h.Peek("Upgrade"), ws.Token), !isKey:
		ctx.Error("this server speaks WebSocket", sluice.StatusBadRequest)
		return
	case string(h.Peek(ws.FieldVersion)) != ws.Version:
		ctx.Error("this server speaks version 13", sluice.StatusUpgradeRequired)
		ctx.Response.Header.Set(ws.FieldVersion, ws.Version)
		return
	}
	ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
	ctx.Response.Header.Set("Connection", "Upgrade")
	ctx.Response.Header.Set("Upgrade", "websocket")
	ctx.Response.Header.SetBytesV(ws.FieldAccept, ws.AppendAccept(nil, key))
	ctx.Hijack(func(c net.Conn) { _ = s.tcp.AdoptConn(c) }) // if it fails, it closes c, which the client counts
}

// handleFrames returns the handler of upgraded connections.
func (s *server) handleFrames(work scenario.Workload) tcp.Handler {
	return func(c *tcp.Conn, in []byte) (int, error) {
		op, payload, size, err := parseFrame(in, true)
		switch {
		case err != nil:
			_, _ = c.Write(ws.AppendFrame(c.AvailableBuffer(), ws.OpClose, ws.AppendClose(nil, ws.CodeProtocolError, "")))
			return 0, err
		case size == 0, op == ws.OpPong:
			return size, nil
		case op == ws.OpPing:
			_, err = c.Write(ws.AppendFrame(c.AvailableBuffer(), ws.OpPong, payload))
			return size, err
		case op == ws.OpClose:
			_, _ = c.Write(ws.AppendFrame(c.AvailableBuffer(), ws.OpClose, payload))
			return size, io.EOF
		}
		n := s.requests.Add(1)
		switch work.Kind {
		case scenario.Discard:
			return size, nil
		case scenario.IO, scenario.Pow:
			labour(work, seedOf(n))
		}
		_, err = c.Write(ws.AppendFrame(c.AvailableBuffer(), ws.OpBinary, payload))
		return size, err
	}
}
