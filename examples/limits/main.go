// Command limits sets every limit that a server on the public internet needs.
//
//	go run ./examples/limits
//	curl -i -d @/bin/ls http://127.0.0.1:8080/             # 413
//	curl -i http://127.0.0.1:8080/$(head -c 9000 /dev/zero | tr '\0' x)   # 414
//	curl -i http://127.0.0.1:8080/slow                     # 503
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/sluicehttp/sluice"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	log.Printf("listening on http://%s", *addr)
	if err := newServer(time.Second).ListenAndServe(*addr); err != nil {
		log.Fatal(err)
	}
}

// newServer limits everything that a client can make long or large. second is one
// second, or shorter in tests.
func newServer(second time.Duration) *sluice.Server {
	slow := func(ctx *sluice.RequestCtx) { <-ctx.Done() }
	slow = sluice.TimeoutWithCodeHandler(slow, 2*second, "took too long", sluice.StatusServiceUnavailable)
	return &sluice.Server{
		Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/slow" {
				slow(ctx)
				return
			}
			fmt.Fprintf(ctx, "%d bytes\n", len(ctx.PostBody()))
		},
		ErrorHandler: explain,

		ReadTimeout:        10 * second, // from the first to the last byte of a request: 408
		WriteTimeout:       10 * second, // for a client that does not read
		IdleTimeout:        60 * second, // between requests
		MaxRequestsPerConn: 10_000,      // then a new connection

		Concurrency:   100_000, // connections: 503
		MaxConnsPerIP: 1_000,   // of one client: 429
		MaxBodyMemory: 1 << 30, // of all bodies together: 503
		MinBodyRate:   1 << 10, // bytes per second: 408

		MaxRequestBodySize: 64 << 10, // 413

		// ReadBufferSize keeps its default: 8 KiB of request line, else 414, and 64
		// KiB of head, else 431.
	}
}

// explain answers requests that never reach the handler. The status is already set.
func explain(ctx *sluice.RequestCtx, err error) {
	var timeout net.Error
	var head *sluice.ErrSmallBuffer
	switch {
	case errors.Is(err, sluice.ErrBodyTooLarge):
		ctx.SetBodyString("bodies are at most 64 KiB here")
	case errors.As(err, &head):
		ctx.SetBodyString("less header, please")
	case errors.As(err, &timeout) && timeout.Timeout():
		ctx.SetBodyString("too slow")
	default:
		ctx.SetBodyString("not HTTP: " + err.Error())
	}
}
