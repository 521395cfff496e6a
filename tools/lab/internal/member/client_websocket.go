//go:build linux

package member

import (
	"context"
	"fmt"
	"net"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/websocket"
)

// newEndpoint returns what all connections of a client of WebSocket have. Without OnMessage,
// each has a goroutine.
func (c *client) newEndpoint() *websocket.Endpoint {
	e := &websocket.Endpoint{PingAfter: -1, OnOpen: c.openWebSocket, OnClose: func(conn *websocket.Conn, err error) {
		c.ended(conn.State().(*peer), err)
	}}
	if c.config.Scenario.Client != scenario.GoroutineClient {
		e.OnMessage = func(conn *websocket.Conn, m websocket.Message) error {
			return c.handleWebSocket(conn, conn.State().(*peer), m)
		}
	}
	return e
}

// upgrade makes the handshake on a connected socket.
func (c *client) upgrade(fd int) error {
	socket, err := socketConn(fd)
	if err != nil {
		return err
	}
	p := &peer{}
	conn, err := websocket.Dial(context.Background(), "ws://lab/", &websocket.DialOptions{
		Endpoint: c.endpoint, State: p,
		Dial: func(context.Context, string) (net.Conn, error) { return socket, nil },
	})
	if err == nil && c.endpoint.OnMessage == nil {
		go c.read(conn, p)
	}
	return err
}

// openWebSocket is called for each connection that the server has upgraded.
func (c *client) openWebSocket(conn *websocket.Conn) error {
	p := conn.State().(*peer)
	p.sender = (*messenger)(conn)
	c.join(p)
	return nil
}

// read is the goroutine of a connection.
func (c *client) read(conn *websocket.Conn, p *peer) {
	for {
		m, err := conn.Read(context.Background())
		if err == nil {
			err = c.handleWebSocket(conn, p, m)
		}
		if err != nil {
			_ = conn.Close(websocket.CodeNormal, "")
			c.ended(p, err)
			return
		}
	}
}

// handleWebSocket takes an answer, or a broadcast.
func (c *client) handleWebSocket(conn *websocket.Conn, p *peer, m websocket.Message) error {
	if m.Kind == websocket.Text {
		return c.audience.hears(p, m.Data, control.Nanos())
	}
	if m.Kind != websocket.Binary || len(m.Data) != messageSize {
		return fmt.Errorf("a message of kind %d and %d bytes was not asked for", m.Kind, len(m.Data))
	}
	if !c.takes(p) {
		return nil
	}
	return conn.TryWrite(websocket.Binary, c.request)
}

// A messenger is a *websocket.Conn that sends messages.
type messenger websocket.Conn

// TrySend implements sender.
func (m *messenger) TrySend(message []byte) error {
	return (*websocket.Conn)(m).TryWrite(websocket.Binary, message)
}
