// Command sse sends server-sent events to all listening clients.
//
//	go run ./examples/sse
//	curl -N http://127.0.0.1:8080/events                # or open / in a browser
//	curl -d 'hello' 'http://127.0.0.1:8080/publish?event=chat'
//	curl -N -H 'Last-Event-ID: ...' http://127.0.0.1:8080/events   # what came after an event
//
// A stream holds no goroutine and no buffer: the Hub has the latest events, and each stream
// is a place among them.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tcplisten"
)

//go:embed index.html
var page []byte

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ln, err := new(tcplisten.Config).NewListener("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	hub, err := sse.New(sse.Options{
		Retry: time.Second,
		OnClose: func(topics []string, err error) {
			log.Printf("a stream has ended: %v", err)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.Printf("listening on http://%s", ln.Addr())
	if err := serve(ctx, ln, newServer(hub)); err != nil {
		log.Fatal(err)
	}
}

func newServer(hub *sse.Hub) *sluice.Server {
	return &sluice.Server{
		MaxRequestBodySize: 16 << 10,
		ReadTimeout:        10 * time.Second, // for a request; streams are not affected
		Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/":
				ctx.Success("text/html; charset=utf-8", page)
			case "/publish":
				publish(ctx, hub)
			case "/events":
				// The handler returns, and the stream goes on.
				if err := hub.Serve(ctx, "all"); err != nil {
					ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
				}
			default:
				ctx.NotFound()
			}
		},
	}
}

// publish sends the body to all clients.
func publish(ctx *sluice.RequestCtx, hub *sse.Hub) {
	if !ctx.IsPost() {
		ctx.Error("POST what is to be sent", sluice.StatusMethodNotAllowed)
		ctx.Response.Header.Set(sluice.HeaderAllow, "POST")
		return
	}
	event := sse.Event{Name: string(ctx.QueryArgs().Peek("event")), Data: ctx.PostBody()}
	if err := hub.Publish("all", event); err != nil {
		ctx.Error(err.Error(), sluice.StatusBadRequest)
		return
	}
	fmt.Fprintf(ctx, "sent to %d\n", hub.Len("all"))
}

// serve serves until ctx ends. Shutdown ends the streams in order, and browsers connect
// again: to the next process.
func serve(ctx context.Context, ln net.Listener, server *sluice.Server) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.ShutdownWithContext(limit); err != nil {
		return err
	}
	return <-served
}
