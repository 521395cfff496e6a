package main

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
)

// freeAddr returns an address with a free port.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Each version answers on the same port; and after the end of ctx, serve returns nil.
func TestVersions(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addr, served := freeAddr(t), make(chan error, 1)
	go func() { served <- serve(ctx, addr, "", "") }()
	insecure := &tls.Config{InsecureSkipVerify: true}
	for want, c := range map[string]*sluice.Client{
		"HTTP/1.1": {TLSConfig: insecure.Clone()},
		"HTTP/3.0": {TLSConfig: insecure.Clone(), Transport: &http3.Transport{Mode: http3.Only}},
	} {
		var body []byte
		var err error
		for range 200 { // until it listens
			if _, body, err = c.Get(nil, "https://"+addr+"/"); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil || !strings.HasPrefix(string(body), want+", stream ") {
			t.Errorf("%s: %q, %v", want, body, err)
		}
		c.CloseIdleConnections()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
