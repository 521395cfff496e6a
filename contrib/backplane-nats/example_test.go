package natsbackplane_test

import (
	"log"

	"github.com/nats-io/nats.go"

	natsbackplane "github.com/sluicehttp/sluice/contrib/backplane-nats"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

// The rooms of all processes that use this server, or its cluster, are the same.
func Example() {
	conn, err := nats.Connect("nats://127.0.0.1:4222", nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	plane, err := natsbackplane.New(conn, natsbackplane.Options{
		Prefix:  "chat",
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer plane.Close() // after the Shutdown of the server
	hub, err := room.New(room.Options{
		Backplane: plane,
		OnGap:     func(name string) { log.Printf("members of room %q must load their state again", name) },
		OnError:   func(name string, err error) { log.Printf("room %q: %v", name, err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	hub.Broadcast("lobby", websocket.Prepare(websocket.Text, []byte("hello")))

	// Output:
}
