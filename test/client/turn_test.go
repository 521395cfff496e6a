package client_test

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A request that finds no room in the socket is written to its end, or until
// WriteTimeout.
func TestClientTurnWithoutRoom(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	reads := make(chan bool)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				br := bufio.NewReader(conn)
				for <-reads {
					for line := ""; line != "\r\n"; {
						if line, err = br.ReadString('\n'); err != nil {
							return
						}
					}
					conn.Write([]byte(ok))
				}
			}()
		}
	}()
	c := &sluice.HostClient{Addr: ln.Addr().String(), ReadTimeout: clientPatience}
	req, resp := harness.NewCall("GET", "http://x/")
	ask := func() error { return c.Do(req, resp) }
	large := strings.Repeat("x", 32<<20)
	for _, field := range []string{"", "", large, ""} { // the first one is on a new connection
		req.Header.Set("X", field)
		go func() { reads <- true }()
		if err := ask(); err != nil || string(resp.Body()) != "ok" {
			t.Fatalf("a field of %d bytes: %q, %v", len(field), resp.Body(), err)
		}
	}
	checkPool(t, c, 1, 1)

	c.WriteTimeout, c.MaxIdemponentCallAttempts = time.Millisecond, 1
	req.Header.Set("X", large)
	if err := ask(); !errors.Is(err, sluice.ErrTimeout) {
		t.Errorf("the server does not read: %v", err)
	}
	close(reads)
	checkPool(t, c, 0, 0)
}
