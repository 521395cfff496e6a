// Command unix serves on a unix socket.
//
//	go run ./examples/unix
//	curl --unix-socket /tmp/sluice.sock http://localhost/
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sluicehttp/sluice"
)

func main() {
	path := flag.String("socket", filepath.Join(os.TempDir(), "sluice.sock"), "path of the socket")
	flag.Parse()
	log.Printf("listening on %s", *path)
	if err := newServer().ListenAndServeUNIX(*path, 0o600); err != nil { // for this user only
		log.Fatal(err)
	}
}

// newServer returns a server that needs nothing special for unix sockets. They have
// no client address. If a proxy sends it in a field, a handler can set it with
// ctx.SetRemoteAddr.
func newServer() *sluice.Server {
	return &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "served on %s\n", ctx.LocalAddr())
	}}
}
