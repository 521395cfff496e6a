package room_test

import (
	"log"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

// A chat with rooms: the path names the room, and each message goes to its other members.
func ExampleHub() {
	hub, err := room.New(room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	chat := &websocket.Endpoint{
		OnOpen: func(c *websocket.Conn) error { return hub.Join(c, c.State().(string)) },
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			hub.Broadcast(c.State().(string), websocket.Prepare(m.Kind, m.Data), room.Except(c))
			return nil
		},
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if err := chat.Upgrade(ctx, string(ctx.Path())); err != nil {
			log.Print(err)
		}
	}}
	_ = server // server.ListenAndServe(":8080")

	// Output:
}
