package redisbackplane_test

import (
	"log"

	"github.com/redis/go-redis/v9"

	redisbackplane "github.com/sluicehttp/sluice/contrib/backplane-redis"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

// The rooms of all processes that use this server are the same.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()
	plane, err := redisbackplane.New(client, redisbackplane.Options{
		Prefix:  "chat:",
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
