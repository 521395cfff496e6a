// Command example serves HTTP/1.1, HTTP/2 and HTTP/3 on one port, with a certificate from
// files or one that is made at the start. Its answer names the version that the client speaks.
//
//	go run ./http3/example
//	go run ./cmd/sluice get -k https://127.0.0.1:8443/              HTTP/1.1
//	go run ./cmd/sluice get -k --http3-only https://127.0.0.1:8443/ HTTP/3.0
//	go run ./http3/example -addr :443 -cert server.pem -key server.key
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8443", "address to listen on, TCP and UDP")
	certFile := flag.String("cert", "", "PEM file of the certificate chain")
	keyFile := flag.String("key", "", "PEM file of the key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log.Printf("listening on https://%s", *addr)
	if err := serve(ctx, *addr, *certFile, *keyFile); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends. Requests that have begun then have ten seconds.
func serve(ctx context.Context, addr, certFile, keyFile string) error {
	s := &sluice.Server{Handler: handle}
	if certFile == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		cert, key, err := sluice.GenerateTestCertificate(host)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return err
		}
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.ShutdownWithContext(patience)
	})
	return http3.ListenAndServe(s, addr, certFile, keyFile)
}

// handle is the same for all versions of HTTP. Clients learn of HTTP/3 by Alt-Svc, which is
// added to the other versions' responses.
func handle(ctx *sluice.RequestCtx) {
	fmt.Fprintf(ctx, "%s, stream %d\n", ctx.Request.Header.Protocol(), ctx.StreamID())
}
