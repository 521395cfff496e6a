package sluice

import (
	"net"
	"testing"
)

// TestHijackRetainsTheConfig: what ServeConn has made is not used for the next
// ServeConn while a hijack handler may still need it, whichever way the connection
// was hijacked.
func TestHijackRetainsTheConfig(t *testing.T) {
	for name, hijack := range map[string]func(ctx *RequestCtx){
		"after the response": func(*RequestCtx) {},
		"without a response": func(ctx *RequestCtx) { ctx.HijackSetNoResponse(true) },
		"after Flush":        func(ctx *RequestCtx) { _ = ctx.Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			var used *single
			hijacked, leave := make(chan bool), make(chan bool)
			s := &Server{Logger: silence{}, Handler: func(ctx *RequestCtx) {
				used = ctx.cfg.single
				ctx.Hijack(func(net.Conn) { hijacked <- true; <-leave })
				hijack(ctx)
			}}
			client, server := net.Pipe()
			defer client.Close()
			go func() {
				for p := make([]byte, 1024); ; {
					if _, err := client.Read(p); err != nil {
						return
					}
				}
			}()
			go func() { _, _ = client.Write([]byte(simpleGet)) }()
			if err := s.ServeConn(server); err != nil {
				t.Error(err)
			}
			<-hijacked
			if !used.isRetained {
				t.Error("its memory may be used again")
			}
			close(leave)
		})
	}
}
