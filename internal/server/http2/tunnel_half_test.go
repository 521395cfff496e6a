package http2

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestTunnelCloseWrite: the peer reads the end, and what it still sends is read, beyond a
// window. Close then ends the stream, with a reset if the peer goes on.
func TestTunnelCloseWrite(t *testing.T) {
	for _, peerEnds := range []bool{true, false} {
		e, tunnel := newTunnel(t, tunnelConfig())
		if _, err := tunnel.Write(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := tunnel.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		e.pump()
		if got := e.peer.took(); got != "DATA 1 10 END" {
			t.Errorf("got %q", got)
		}
		if _, err := tunnel.Write([]byte("x")); err != net.ErrClosed {
			t.Errorf("Write: %v", err)
		}
		if err := tunnel.CloseWrite(); err != net.ErrClosed {
			t.Errorf("CloseWrite again: %v", err)
		}
		p := make([]byte, 16<<10)
		for range 10 {
			e.feed(data(nil, 1, len(p), false))
			if n, err := io.ReadFull(tunnel, p); err != nil {
				t.Fatal(n, err)
			}
			e.pump()
		}
		if got := e.peer.took(); !strings.Contains(got, "WINDOW_UPDATE 1") || strings.Contains(got, "RST") {
			t.Errorf("got %q", got)
		}
		want := "RST_STREAM 1 NO_ERROR"
		if peerEnds {
			want = ""
			e.feed(h2.AppendDataHead(nil, 1, 0, true))
			if n, err := tunnel.Read(p); err != io.EOF {
				t.Error(n, err)
			}
		}
		if err := tunnel.Close(); err != nil {
			t.Error(err)
		}
		e.pump()
		if got := e.peer.took(); got != want {
			t.Errorf("after Close: got %q, want %q", got, want)
		}
		e.checkEnded()
	}
}
