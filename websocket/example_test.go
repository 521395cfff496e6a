package websocket_test

import (
	"log"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

// A chat: each message goes to all. A slow client is closed, and delays nobody.
func ExampleEndpoint() {
	var members websocket.Group
	chat := &websocket.Endpoint{
		Origins: []string{"https://chat.example.com"},
		OnOpen:  members.Add,
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			members.Broadcast(websocket.Prepare(m.Kind, m.Data), nil)
			return nil
		},
		OnClose: func(c *websocket.Conn, err error) {
			log.Printf("left with code %d", websocket.CloseCode(err))
		},
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if err := chat.Upgrade(ctx, nil); err != nil {
			log.Print(err)
		}
	}}
	_ = server // server.ListenAndServe(":8080")

	// Output:
}
