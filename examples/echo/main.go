// Command echo sends back everything that it receives.
//
//	go run ./examples/echo
//	echo hello | nc -N 127.0.0.1 9000
package main

import (
	"flag"
	"log"

	"github.com/sluicehttp/sluice/tcp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9000", "address to listen on")
	flag.Parse()
	log.Printf("listening on %s", *addr)
	log.Fatal(tcp.ListenAndServe(*addr, echo))
}

// echo is the whole program: it uses all of the input and replies with it.
func echo(c *tcp.Conn, in []byte) (used int, err error) { return c.Write(in) }
