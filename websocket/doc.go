// Package websocket serves WebSocket (RFC 6455) on the connections of a sluice.Server, and dials.
//
// An Endpoint has callbacks. A handler calls Endpoint.Upgrade; when it returns, the
// connection belongs to the Endpoint. With engine epoll, a connection that waits has no
// goroutine and no buffer.
//
//	echo := &websocket.Endpoint{
//		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
//			return c.Write(context.Background(), m.Kind, m.Data)
//		},
//	}
//	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
//		_ = echo.Upgrade(ctx, nil) // it has answered if it fails
//	}}
//
// Endpoint.Accept is for programs that prefer a loop of Conn.Read on a goroutine. Dial is
// the client. A Group, and the rooms of package room, send a message to many connections.
package websocket
