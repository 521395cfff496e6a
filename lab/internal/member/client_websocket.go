//go:build linux

package member

import (
	"bytes"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/sluicehttp/sluice/internal/ws"
	"github.com/sluicehttp/sluice/tcp"
)

// upgrading is the state of a connection that is not yet a peer.
type upgrading struct {
	key string // that was sent
}

// startUpgrade asks for WebSocket on a new connection.
func (c *client) startUpgrade(conn *tcp.Conn) error {
	var nonce [ws.KeySize]byte
	_, _ = rand.Read(nonce[:]) // it cannot fail
	u := &upgrading{key: string(ws.AppendKey(nil, nonce))}
	conn.SetState(u)
	_, err := conn.WriteString("GET / HTTP/1.1\r\nHost: lab\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + u.key + "\r\n\r\n")
	return err
}

// handleWebSocket takes the answer to an upgrade, or a frame.
func (c *client) handleWebSocket(conn *tcp.Conn, in []byte) (int, error) {
	if u, isUpgrading := conn.State().(*upgrading); isUpgrading {
		return c.switched(conn, u, in)
	}
	op, payload, size, err := parseFrame(in, false)
	switch {
	case err != nil || size == 0:
		return 0, err
	case op != ws.OpBinary || len(payload) != messageSize:
		return 0, fmt.Errorf("a frame of kind %d and %d bytes was not asked for", op, len(payload))
	}
	return size, c.answered(conn)
}

// switched takes the answer to an upgrade.
func (c *client) switched(conn *tcp.Conn, u *upgrading, in []byte) (int, error) {
	end := bytes.Index(in, endOfHead)
	if end < 0 {
		return 0, nil
	}
	head := in[:end+2]
	if !bytes.HasPrefix(head, statusSwitching) || string(fieldOf(head, ws.FieldAccept)) != string(ws.AppendAccept(nil, []byte(u.key))) {
		return 0, fmt.Errorf("the server does not upgrade: %.200q", head)
	}
	c.joins(conn, (*masker)(conn.Sender()))
	<-c.upgrades
	return end + len(endOfHead), nil
}

// A masker is a *tcp.Sender that sends each message as a frame, masked with a
// key of its own (RFC 6455 section 5.3).
type masker tcp.Sender

// TrySend implements sender.
func (m *masker) TrySend(message []byte) error {
	frame := make([]byte, 0, 32)
	return (*tcp.Sender)(m).TrySend(ws.AppendMasked(frame, ws.OpBinary, ws.Key(mathrand.Uint32()), message))
}
