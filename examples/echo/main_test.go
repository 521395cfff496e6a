package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

func TestEcho(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go tcp.Serve(ln, echo)

	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := strings.Repeat("hello ", 10_000)
	go func() {
		io.WriteString(conn, want)
		conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v, want the %d that were sent", len(got), err, len(want))
	}
}
