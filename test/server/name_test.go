package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestServerField: handlers find the server's name in the Server field, and can
// remove it from there. It is sent all the same where there is no other value.
func TestServerField(t *testing.T) {
	for name, test := range map[string]struct {
		change     func(ctx *sluice.RequestCtx)
		read, sent string
	}{
		"as it comes": {func(*sluice.RequestCtx) {}, "own", "own"},
		"Del":         {func(ctx *sluice.RequestCtx) { ctx.Response.Header.Del("server") }, "", "own"},
		"DelBytes":    {func(ctx *sluice.RequestCtx) { ctx.Response.Header.DelBytes([]byte("Server")) }, "", "own"},
		"SetServer":   {func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetServer("x") }, "x", "x"},
		"empty":       {func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetServer("") }, "", "own"},
		"Add":         {func(ctx *sluice.RequestCtx) { ctx.Response.Header.Add("Server", "x") }, "x", "x"},
		"set and Del": {func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetServer("x"); ctx.Response.Header.Del("Server") }, "", "own"},
		"Reset":       {func(ctx *sluice.RequestCtx) { ctx.Response.Reset() }, "", "own"},
		"Error":       {func(ctx *sluice.RequestCtx) { ctx.Error("", 200) }, "", "own"},
		"copied over": {func(ctx *sluice.RequestCtx) { new(sluice.Response).CopyTo(&ctx.Response) }, "", "own"},
	} {
		read := ""
		s := &sluice.Server{Name: "own", NoDefaultDate: true, ExpectHandler: func(ctx *sluice.RequestCtx) int {
			read = string(ctx.Response.Header.Server())
			ctx.Response.Header.SetServer("of ExpectHandler")
			return sluice.StatusContinue
		}, Handler: func(ctx *sluice.RequestCtx) {
			test.change(ctx)
			h := &ctx.Response.Header
			var all []string
			for key, value := range h.All() {
				if string(key) == "Server" {
					all = append(all, string(value))
				}
			}
			var copied sluice.ResponseHeader
			h.CopyTo(&copied)
			isWritten := strings.Contains(h.String(), "Server: ") && strings.Contains(copied.String(), "Server: ")
			read += fmt.Sprint(" ", all, string(h.Server()), string(h.Peek("Server")), string(copied.Server()), isWritten)
		}}
		want := fmt.Sprint(" [", test.read, "]", test.read, test.read, test.read, test.read != "")
		for range 2 { // with a request's memory from another one
			got := harness.Serve(t, harness.InMemory(), s).Exchange(harness.Post("/", "x", "Expect: 100-continue", "Connection: close"))
			if read != want || !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\nServer: "+test.sent+"\r\n") {
				t.Errorf("%s: read %q, want %q, sent %q", name, read, want, got)
			}
			s = &sluice.Server{Name: s.Name, NoDefaultDate: true, ExpectHandler: s.ExpectHandler, Handler: s.Handler}
		}
	}
}

// TestServeConnNames: ServeConn uses the memory of the calls before it, but not their
// names.
func TestServeConnNames(t *testing.T) {
	for range 3 {
		for _, name := range []string{"one", "two"} {
			s := &sluice.Server{Name: name, Handler: func(*sluice.RequestCtx) {}}
			client, server := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(server) }()
			io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(client)
			if err != nil || !bytes.Contains(answer, []byte("\r\nServer: "+name+"\r\n")) {
				t.Errorf("%s answers %q, %v", name, answer, err)
			}
			<-served
		}
	}
}
