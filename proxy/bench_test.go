package proxy

import (
	"bufio"
	"net"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice"
)

// BenchmarkProxy forwards a small request to a Sluice server, on 16 connections. Its allocations
// are those of client, proxy and upstream together; the client and the upstream have none.
func BenchmarkProxy(b *testing.B) {
	up := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("Hello, World!") }, Logger: silent}
	p := newProxy(b, Options{To: []string{"http://" + serveUntilEnd(b, up.Serve, up.Shutdown)}})
	addr := front(b, p, sluice.EngineAuto)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		r, in := bufio.NewReader(conn), []byte(get(""))
		var resp sluice.Response
		for pb.Next() {
			if _, err := conn.Write(in); err != nil {
				b.Error(err)
				return
			}
			if err := resp.Read(r); err != nil || resp.StatusCode() != http.StatusOK {
				b.Error(err)
				return
			}
		}
	})
}
