// Command chat is a chat with rooms over WebSocket.
//
//	go run ./examples/chat          # and open http://127.0.0.1:8080/ in two browsers
//	curl http://127.0.0.1:8080/rooms
//
// Who enters a room gets its latest messages, and everybody sees who is there.
package main

import (
	"context"
	_ "embed"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluicehttp/sluice"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.Printf("listening on http://%s", ln.Addr())
	if err := serve(ctx, ln, &sluice.Server{Handler: newChat().handle}); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends. Shutdown closes all WebSockets with 1001.
func serve(ctx context.Context, ln net.Listener, server *sluice.Server) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	if err := server.Shutdown(); err != nil {
		return err
	}
	return <-served
}
