package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/sluicehttp/sluice"
)

// connectionRows: the connection and times.
func connectionRows() []row {
	return []row{
		{"r.RemoteAddr",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) },
			func(ctx *sluice.RequestCtx) { io.WriteString(ctx, ctx.RemoteAddr().String()) }},
		{"r.TLS",
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS != nil) },
			func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, ctx.IsTLS()) }},
		{"r.Context", // also closed when the client disconnects
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Context().Err()) },
			func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, ctx.Err()) }},
		{"http.Flusher",
			func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "now, ")
				w.(http.Flusher).Flush()
				io.WriteString(w, "later")
			},
			func(ctx *sluice.RequestCtx) {
				ctx.WriteString("now, ")
				ctx.Flush()
				ctx.WriteString("later")
			}},
		{"http.TimeoutHandler", // the default status here is 408
			http.TimeoutHandler(http.HandlerFunc(untilCancelled), time.Millisecond, "too late").ServeHTTP,
			sluice.TimeoutWithCodeHandler(func(ctx *sluice.RequestCtx) { <-ctx.Done() },
				time.Millisecond, "too late", sluice.StatusServiceUnavailable)},
		{"http.Hijacker", // sluice writes the response before the handler gets the connection
			func(w http.ResponseWriter, r *http.Request) {
				conn, buffered, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()
				io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				io.Copy(conn, buffered)
			},
			func(ctx *sluice.RequestCtx) {
				ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
				ctx.Response.Header.Set("Connection", "Upgrade")
				ctx.Response.Header.Set("Upgrade", "echo")
				ctx.Hijack(func(conn net.Conn) { io.Copy(conn, conn) })
			}},
	}
}

func untilCancelled(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
