// Command streaming sends and receives bodies piece by piece.
//
//	go run ./examples/streaming
//	curl -N http://127.0.0.1:8080/events
//	curl -N http://127.0.0.1:8080/progress
//	head -c 1G /dev/zero | curl -T - http://127.0.0.1:8080/upload
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/sluicehttp/sluice"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	log.Printf("listening on http://%s", *addr)
	if err := newServer(time.Tick(time.Second)).ListenAndServe(*addr); err != nil {
		log.Fatal(err)
	}
}

// newServer returns a server whose streams continue at every tick.
func newServer(ticks <-chan time.Time) *sluice.Server {
	return &sluice.Server{
		StreamRequestBody: true, // call the handler before the body has arrived
		Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/events":
				events(ctx, ticks)
			case "/progress":
				progress(ctx, ticks)
			case "/upload":
				upload(ctx)
			default:
				ctx.NotFound()
			}
		},
	}
}

// events sends server-sent events. The function writes the body after events has
// returned, so it must not use ctx. It ends when the client disconnects, even while
// nothing is being sent.
func events(ctx *sluice.RequestCtx, ticks <-chan time.Time) {
	ctx.SetContentType("text/event-stream")
	gone := ctx.Done()
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		for n := 1; ; n++ {
			select {
			case <-gone:
				return
			case <-ticks:
			}
			fmt.Fprintf(w, "id: %d\ndata: tick\n\n", n)
			if w.Flush() != nil {
				return
			}
		}
	})
}

// progress flushes from inside the handler, so all code stays there.
func progress(ctx *sluice.RequestCtx, ticks <-chan time.Time) {
	for percent := 0; percent <= 100; percent += 50 {
		if percent > 0 {
			<-ticks
		}
		fmt.Fprintf(ctx, "%d%%\n", percent)
		if ctx.Flush() != nil {
			return // the client has disconnected
		}
	}
}

// upload counts the bytes of a body of any size in constant memory. An error, which
// io.Copy never returns for io.EOF, means that the body is incomplete.
func upload(ctx *sluice.RequestCtx) {
	var n int64
	if body := ctx.RequestBodyStream(); body != nil {
		var err error
		if n, err = io.Copy(io.Discard, body); err != nil {
			ctx.Error(err.Error(), sluice.StatusBadRequest)
			return
		}
	}
	fmt.Fprintf(ctx, "received %d bytes\n", n)
}
