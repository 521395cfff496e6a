// Command h1target is the server that the raw HTTP/1.1 cases of
// ../shared/h1cases are run against: it serves what CONTRACT.md there asks for
// with package sluice, and nothing else.
//
//	go -C tools/interop run ./h1target -addr 127.0.0.1:8080 [-tls [-compact]]
//
// It prints "listening on ADDR" when it does, and ends on SIGINT or SIGTERM.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sluicehttp/sluice"
)

// maxBody is what the contract bounds request bodies to.
const maxBody = 4 << 20

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	var engine sluice.Engine
	flag.TextVar(&engine, "engine", sluice.EngineAuto, "connection engine: auto, perconn or epoll")
	stream := flag.Bool("stream", false, "hand bodies to the handler as they arrive, so that /nobody really leaves its body unread")
	secure := flag.Bool("tls", false, "speak TLS 1.3, with a certificate of its own")
	compact := flag.Bool("compact", false, "with -tls: have compact connections, and answer 500 on others")
	flag.Parse()
	server := &sluice.Server{Engine: engine, StreamRequestBody: *stream, CompactTLS: *compact}
	if err := run(*addr, server, *secure); err != nil {
		log.Fatal(err)
	}
}

func run(addr string, server *sluice.Server, isSecure bool) error {
	www, err := makeWWW()
	if err != nil {
		return err
	}
	defer os.RemoveAll(www)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if info := server.EngineInfo(ln); server.Engine != sluice.EngineAuto && info.Engine != server.Engine || info.CompactTLS != server.CompactTLS {
		return fmt.Errorf("engine %v, compact TLS %v is asked for, but %v would serve", server.Engine, server.CompactTLS, info)
	}
	server.Handler = contract(filepath.Join(www, "www")).handle
	server.MaxRequestBodySize, server.Logger = maxBody, quiet{}
	serve := server.Serve
	if isSecure {
		serve, err = secured(server)
		if err != nil {
			return err
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	fmt.Println("listening on", ln.Addr())
	select {
	case err := <-served:
		return errors.Join(errors.New("the server stopped by itself"), err)
	case <-stop:
		return server.Shutdown()
	}
}

// secured returns what serves by TLS 1.3. Each handler looks whether its connection is compact.
func secured(server *sluice.Server) (serve func(net.Listener) error, err error) {
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		return nil, err
	}
	handle := server.Handler
	server.Handler = func(ctx *sluice.RequestCtx) {
		// crypto/tls exports keys, a compact connection does not.
		if _, err := ctx.TLSConnectionState().ExportKeyingMaterial("h1target", nil, 16); (err != nil) != server.CompactTLS {
			ctx.Error(fmt.Sprintf("the connection is not what was asked for: %v", err), sluice.StatusInternalServerError)
			return
		}
		handle(ctx)
	}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
	return func(ln net.Listener) error { return server.ServeTLSEmbed(ln, cert, key) }, nil
}

// quiet drops what the server logs about the nonsense that the cases send.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
