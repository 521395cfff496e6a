//go:build linux

package member

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tcp"
)

const (
	// keyGUID is what RFC 6455 section 1.3 has appended to a client's key.
	keyGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	keySize = 16
)

// accept returns the Sec-WebSocket-Accept of a Sec-WebSocket-Key.
func accept(key []byte) string {
	sum := sha1.Sum(append(key[:len(key):len(key)], keyGUID...))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// upgrade answers a client's handshake (RFC 6455 section 4.2) and moves the
// connection to the TCP server, which has it from then on: on event loops it
// needs a goroutine for the time of the move only.
func (s *server) upgrade(ctx *sluice.RequestCtx) {
	h := &ctx.Request.Header
	key := h.Peek("Sec-WebSocket-Key")
	size, err := base64.StdEncoding.Decode(make([]byte, base64.StdEncoding.DecodedLen(len(key))), key)
	switch {
	case !ctx.IsGet(), !h.ConnectionUpgrade(), !bytes.EqualFold(h.Peek("Upgrade"), []byte("websocket")), err != nil, size != keySize:
		ctx.Error("this server speaks WebSocket", sluice.StatusBadRequest)
		return
	case string(h.Peek("Sec-WebSocket-Version")) != "13":
		ctx.Error("this server speaks version 13", sluice.StatusUpgradeRequired)
		ctx.Response.Header.Set("Sec-WebSocket-Version", "13")
		return
	}
	ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
	ctx.Response.Header.Set("Connection", "Upgrade")
	ctx.Response.Header.Set("Upgrade", "websocket")
	ctx.Response.Header.Set("Sec-WebSocket-Accept", accept(key))
	ctx.Hijack(func(c net.Conn) { _ = s.tcp.AdoptConn(c) }) // if it fails, it closes c, which the client counts
}

// closeProtocolError is the frame that says "protocol error".
const closeProtocolError = "\x03\xea"

// handleFrames returns the handler of upgraded connections.
func (s *server) handleFrames(work scenario.Workload) tcp.Handler {
	return func(c *tcp.Conn, in []byte) (int, error) {
		op, payload, size, err := parseFrame(in, true)
		switch {
		case err != nil:
			_, _ = c.Write(appendFrame(c.AvailableBuffer(), opClose, []byte(closeProtocolError)))
			return 0, err
		case size == 0, op == opPong:
			return size, nil
		case op == opPing:
			_, err = c.Write(appendFrame(c.AvailableBuffer(), opPong, payload))
			return size, err
		case op == opClose:
			_, _ = c.Write(appendFrame(c.AvailableBuffer(), opClose, payload))
			return size, io.EOF
		}
		n := s.requests.Add(1)
		switch work.Kind {
		case scenario.Discard:
			return size, nil
		case scenario.IO, scenario.Pow:
			labour(work, seedOf(n))
		}
		_, err = c.Write(appendFrame(c.AvailableBuffer(), opBinary, payload))
		return size, err
	}
}
