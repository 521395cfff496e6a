package http2_test

import (
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestTunnelHalfClose: a hijack handler ends its output and goes on reading.
func TestTunnelHalfClose(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		read := make(chan string, 1)
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			switchTo(ctx, func(c net.Conn) {
				_, _ = io.WriteString(c, "bye")
				if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
				text, err := io.ReadAll(c)
				if err != nil {
					t.Error(err)
				}
				read <- string(text)
			})
		}}
		f := harness.ServeHTTP2(t, n, s).Frames()
		f.Accepts(1)
		if got := f.Describe(); got != "bye ." {
			t.Errorf("got %q", got)
		}
		f.Data(1, "and more", true)
		if got := <-read; got != "and more" {
			t.Errorf("the handler has read %q", got)
		}
	})
}
