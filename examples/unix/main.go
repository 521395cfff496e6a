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

// newServer makes a server that has nothing particular to unix sockets. There
// is no client address on them; where a proxy tells it in a field, a handler
// can hand it on with ctx.SetRemoteAddr.
func newServer() *sluice.Server {
	return &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "served on %s\n", ctx.LocalAddr())
	}}
}
