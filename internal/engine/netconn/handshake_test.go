package netconn

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// A handshake ends at its deadline, however much of it a client has sent, and however slowly.
func TestHandshakeDeadline(t *testing.T) {
	const patience = 30 * time.Second
	certificate, err := selfsigned.New("")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	hello := nettest.ClientHello(t)
	for _, size := range []int{0, 1, 5, len(hello) / 2, len(hello)} {
		synctest.Test(t, func(t *testing.T) {
			d := New(engine.Options{HandshakeTimeout: patience}).(*driver)
			client, server := net.Pipe()
			c := d.newConn(tls.Server(server, config), &lineProtocol{}, &engine.Hooks{})
			c.register()
			began := time.Now()
			go c.run()
			go func() { // a byte in a second, and the rest at once
				for i, b := range hello[:size] {
					if _, err := client.Write([]byte{b}); err != nil {
						t.Error(err)
					}
					if i < 20 {
						time.Sleep(time.Second)
					}
				}
			}()
			_, _ = io.Copy(io.Discard, client)
			if took := time.Since(began); took != patience {
				t.Errorf("after %d bytes the handshake was given up in %v", size, took)
			}
			_ = client.Close()
			if err := d.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
