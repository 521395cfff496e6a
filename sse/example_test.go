package sse_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
)

// A page with news: an EventSource of "/events" gets what is published, and after a break
// what it has missed.
func ExampleHub() {
	hub, err := sse.New(sse.Options{Retry: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/events":
			if err := hub.Serve(ctx, "news"); err != nil {
				ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
			}
		case "/publish":
			if err := hub.Publish("news", sse.Event{Name: "headline", Data: ctx.PostBody()}); err != nil {
				ctx.Error(err.Error(), sluice.StatusBadRequest)
			}
		}
	}}
	_ = server // server.ListenAndServe(":8080")
}

// Reader reads the events of a response.
func ExampleReader() {
	body := strings.NewReader("retry: 1000\n\nid: 7\nevent: headline\ndata: Rain\n\n: a comment\n\nid: 8\ndata: two\ndata: lines\n\n")
	events := sse.NewReader(body)
	for {
		e, err := events.Next()
		if err != nil {
			break
		}
		fmt.Printf("%q %q\n", e.Name, e.Data)
	}
	fmt.Println("connect again after", events.Retry(), "with Last-Event-ID:", events.LastID())
	// Output:
	// "headline" "Rain"
	// "" "two\nlines"
	// connect again after 1s with Last-Event-ID: 8
}
