// Command tls serves HTTPS, with a certificate from files or one that is made at the
// start.
//
//	go run ./examples/tls
//	curl -k https://127.0.0.1:8443/
//	go run ./examples/tls -cert server.pem -key server.key
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tcplisten"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8443", "address to listen on")
	certFile := flag.String("cert", "", "PEM file of the certificate chain")
	keyFile := flag.String("key", "", "PEM file of the key")
	flag.Parse()
	ln, err := new(tcplisten.Config).NewListener("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on https://%s", *addr)
	if err := serve(ln, *certFile, *keyFile); err != nil {
		log.Fatal(err)
	}
}

// serve uses the files if they are given. TLSConfig may use everything in crypto/tls:
// GetCertificate, ClientCAs and so on.
func serve(ln net.Listener, certFile, keyFile string) error {
	server := &sluice.Server{
		Handler:   handle,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13},
	}
	if certFile != "" {
		return server.ServeTLS(ln, certFile, keyFile)
	}
	host, _, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return err
	}
	cert, key, err := sluice.GenerateTestCertificate(host)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	return server.ServeTLSEmbed(ln, cert, key)
}

// handle reports what was negotiated.
func handle(ctx *sluice.RequestCtx) {
	state := ctx.TLSConnectionState()
	if state == nil {
		ctx.Error("This is not TLS.", sluice.StatusUpgradeRequired)
		return
	}
	fmt.Fprintf(ctx, "%s, %s\n", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite))
}
