package websocket_test

import (
	"log"
	"sync"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

// A chat: each message goes to all. A slow client is closed, and delays nobody.
func ExampleEndpoint() {
	var mu sync.Mutex
	members := make(map[*websocket.Conn]struct{})
	chat := &websocket.Endpoint{
		Origins: []string{"https://chat.example.com"},
		OnOpen: func(c *websocket.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			members[c] = struct{}{}
			return nil
		},
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			mu.Lock()
			defer mu.Unlock()
			for member := range members {
				_ = member.TryWrite(m.Kind, m.Data) // OnClose removes those that are full
			}
			return nil
		},
		OnClose: func(c *websocket.Conn, err error) {
			mu.Lock()
			defer mu.Unlock()
			delete(members, c)
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
