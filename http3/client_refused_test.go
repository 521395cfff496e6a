package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
)

// TestClientCertificateIsRequired: a server that refuses the client's certificate is asked once.
func TestClientCertificateIsRequired(t *testing.T) {
	var asked atomic.Int64
	config := newCertificate(t)
	config.ClientAuth, config.NextProtos = tls.RequireAnyClientCert, []string{"h3"}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { asked.Add(1); return nil, nil }
	ln, err := quic.ListenAddr("127.0.0.1:0", config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { // until Close
		for {
			if _, err := ln.Accept(context.Background()); err != nil {
				return
			}
		}
	}()
	c := overHTTP3(t, ln.Addr().String())
	for n := int64(1); n <= 5; n++ {
		_, _, err := c.Get(nil, "https://"+c.Addr+"/")
		var alert *net.OpError
		isAlert := errors.As(err, &alert) && alert.Op == "remote error"
		var dialing *sluice.ErrDialWithUpstream // the alert came during the handshake
		if !isAlert && !errors.As(err, &dialing) || asked.Load() != n {
			t.Fatalf("request %d: %v after %d handshakes", n, err, asked.Load())
		}
	}
}
