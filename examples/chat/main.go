// Command chat is a chat with rooms over WebSocket.
//
//	go run ./examples/chat          # and open http://127.0.0.1:8080/ in two browsers
//	curl http://127.0.0.1:8080/rooms
//	go run ./examples/chat -cert server.pem -key server.key # https, and wss over HTTP/1.1 or HTTP/2
//
// Who enters a room gets its latest messages, and everybody sees who is there.
//
// With -prefork N it serves with N processes. Messages reach a room's members in all of them,
// and a rolling restart (kill -HUP) closes no connection without TLS. Each process has the history and
// the list of who is there of its own members only.
package main

import (
	"context"
	"crypto/tls"
	_ "embed"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/tcplisten"
	"github.com/sluicehttp/sluice/websocket/room"
)

//go:embed index.html
var page []byte

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	workers := flag.Int("prefork", 0, "number of worker processes; 0: serve in one process")
	certFile := flag.String("cert", "", "PEM file of the certificate chain, for TLS")
	keyFile := flag.String("key", "", "PEM file of the key")
	flag.Parse()
	server, scheme := &sluice.Server{}, "http"
	if *certFile != "" {
		pair, err := tls.LoadX509KeyPair(*certFile, *keyFile)
		if err != nil {
			log.Fatal(err)
		}
		server.TLSConfig, scheme = &tls.Config{Certificates: []tls.Certificate{pair}}, "https"
	}
	if *workers > 0 {
		if err := serveWithWorkers(server, scheme, *addr, *workers); err != nil {
			log.Fatal(err)
		}
		return
	}
	hub, err := room.New(room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := new(tcplisten.Config).NewListener("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.Printf("listening on %s://%s", scheme, ln.Addr())
	server.Handler = newChat(hub).handle
	if err := serve(ctx, ln, server); err != nil {
		log.Fatal(err)
	}
}

// serveWithWorkers serves in several processes until the master gets SIGTERM or SIGINT.
func serveWithWorkers(server *sluice.Server, scheme, addr string, workers int) error {
	p := prefork.New(server)
	p.Workers = workers
	p.OnFleetReady = func() { log.Printf("listening on %s://%v", scheme, p.Addrs()[0]) }
	hub, err := room.New(room.Options{Backplane: p.Backplane("chat"), History: 10_000})
	if err != nil {
		return err
	}
	c := newChat(hub)
	server.Handler = c.handle
	if err := c.endpoint.Register(server); err != nil {
		return err
	}
	if server.TLSConfig != nil {
		return p.ListenAndServeTLS(addr, "", "") // with the certificate of TLSConfig
	}
	return p.ListenAndServe(addr)
}

// serve serves until ctx ends. Shutdown closes all WebSockets with 1001.
func serve(ctx context.Context, ln net.Listener, server *sluice.Server) error {
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(ln, "", "")
		} else {
			served <- server.Serve(ln)
		}
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	if err := server.Shutdown(); err != nil {
		return err
	}
	return <-served
}
