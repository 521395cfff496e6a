// Program fasthttp is a server of WebSocket with github.com/fasthttp/websocket as it is.
// The test builds it with contrib/fasthttp in the place of fasthttp.
package main

import (
	"fmt"
	"log"
	"net"

	"github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
)

func main() {
	upgrader := websocket.FastHTTPUpgrader{Subprotocols: []string{"echo"}}
	s := &sluice.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("X-Stream", fmt.Sprint(ctx.StreamID()))
		if string(ctx.Path()) != "/echo" {
			ctx.Error("there is no WebSocket", fasthttp.StatusForbidden)
			return
		}
		_ = upgrader.Upgrade(ctx, func(c *websocket.Conn) { // it has answered an error
			for {
				kind, message, err := c.ReadMessage()
				if err != nil || c.WriteMessage(kind, message) != nil {
					return
				}
			}
		})
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ln.Addr())
	log.Fatal(s.Serve(ln))
}
