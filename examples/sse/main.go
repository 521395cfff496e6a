// Command sse sends server-sent events to all listening clients.
//
//	go run ./examples/sse
//	curl -N http://127.0.0.1:8080/events                # or open / in a browser
//	curl -d 'hello' 'http://127.0.0.1:8080/publish?event=greeting'
//	curl -N -H 'Last-Event-ID: 0' http://127.0.0.1:8080/events   # what was missed
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
	"time"

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
	s := &service{
		broker:    newBroker(),
		heartbeat: 15 * time.Second,
		ended:     func(left int) { log.Printf("a stream has ended, %d are open", left) },
	}
	if err := serve(ctx, ln, newServer(s)); err != nil {
		log.Fatal(err)
	}
}

func newServer(s *service) *sluice.Server {
	return &sluice.Server{
		Handler:            s.handle,
		MaxRequestBodySize: 16 << 10,         // of published data: the broker keeps a hundred events
		ReadTimeout:        10 * time.Second, // for a request; streams are not affected
		// A client that reads nothing for so long is cut off. The limit applies to
		// each write, so a stream may last for days.
		WriteTimeout: 30 * time.Second,
	}
}

// serve serves until ctx ends. Shutdown closes the Done channels of all requests, so
// streams end at once, and browsers reconnect to the next process.
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
