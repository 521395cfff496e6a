package fasthttputil_test

import (
	"fmt"
	"log"
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// A test of a handler without a socket.
func ExampleInmemoryListener() {
	ln := fasthttputil.NewInmemoryListener()
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "Hello, %s!", ctx.QueryArgs().Peek("name"))
	}}
	go server.Serve(ln)

	client := &sluice.Client{Dial: func(string) (net.Conn, error) { return ln.Dial() }}
	status, body, err := client.Get(nil, "http://in.memory/?name=Ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d %s\n", status, body)
	client.CloseIdleConnections()
	if err := server.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: 200 Hello, Ann!
}

// Two ends of a connection in memory.
func ExamplePipeConns() {
	pipes := fasthttputil.NewPipeConns()
	go func() {
		fmt.Fprint(pipes.Conn2(), "hello")
		pipes.Conn2().Close()
	}()
	text := make([]byte, 5)
	n, err := pipes.Conn1().Read(text)
	fmt.Printf("%s %v\n", text[:n], err)
	// Output: hello <nil>
}
