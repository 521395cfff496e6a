// Command graceful ends without cutting off requests.
//
//	go run ./examples/graceful
//	curl http://127.0.0.1:8080/ &        # takes five seconds
//	curl http://127.0.0.1:8080/wait &    # runs until the server ends
//	kill PID                             # both are answered
package main

import (
	"context"
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

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	drain := flag.Duration("drain", 10*time.Second, "how long requests may go on after a signal")
	flag.Parse()
	ln, err := new(tcplisten.Config).NewListener("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	log.Printf("pid %d, listening on http://%s", os.Getpid(), *addr)
	work := func() { time.Sleep(5 * time.Second) }
	if err := serve(ctx, ln, *drain, newHandler(work)); err != nil {
		log.Fatal(err)
	}
	log.Print("every request was answered")
}

// serve serves until ctx ends. Then it refuses new connections and closes idle ones.
// Running requests have the time drain to finish.
func serve(ctx context.Context, ln net.Listener, drain time.Duration, handler sluice.RequestHandler) error {
	server := &sluice.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served: // the listener failed
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := server.ShutdownWithContext(limit); err != nil {
		return err // context.DeadlineExceeded: requests were cut off
	}
	return <-served
}

// newHandler has two kinds of requests: some finish their work in any case, others
// wait for something and should stop when the server ends.
func newHandler(work func()) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) != "/wait" {
			work()
			ctx.WriteString("done\n")
			return
		}
		<-ctx.Done() // also closed when the client disconnects
		ctx.Error("the server is going down", sluice.StatusServiceUnavailable)
	}
}
