// Command hello answers every request with a greeting.
//
//	go run ./examples/hello
//	curl 'http://127.0.0.1:8080/?name=Ada'
package main

import (
	"flag"
	"fmt"
	"log"

	"github.com/sluicehttp/sluice"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	log.Printf("listening on http://%s", *addr)
	if err := sluice.ListenAndServe(*addr, hello); err != nil {
		log.Fatal(err)
	}
}

// hello is the whole program. ctx is both request and response; it is also an
// io.Writer.
func hello(ctx *sluice.RequestCtx) {
	name := ctx.QueryArgs().Peek("name")
	if len(name) == 0 {
		name = []byte("world")
	}
	fmt.Fprintf(ctx, "Hello, %s!\n", name)
}
