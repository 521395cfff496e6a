// Command acme serves HTTPS with certificates of Let's Encrypt, which autocert gets and
// renews. By starting it you accept their terms. The name must lead to this machine.
//
//	go build -o /tmp/acme ./examples/acme && sudo /tmp/acme www.example.org
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"golang.org/x/crypto/acme/autocert"
)

func main() {
	m := &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		HostPolicy: autocert.HostWhitelist(os.Args[1:]...),
		Cache:      autocert.DirCache("certificates"), // has private keys
	}
	// Plain HTTP leads to HTTPS, but for what the authority asks.
	go func() {
		log.Fatal(sluice.ListenAndServe(":80", fasthttpadaptor.NewFastHTTPHandler(m.HTTPHandler(nil))))
	}()
	log.Fatal(server(m).ListenAndServeTLS(":443", "", ""))
}

// server has its certificates from m.
func server(m *autocert.Manager) *sluice.Server {
	return &sluice.Server{
		Handler:   func(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "Hello from %s!\n", ctx.Host()) },
		TLSConfig: m.TLSConfig(), // HTTP/2, and acme-tls/1
	}
}
