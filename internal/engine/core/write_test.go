//go:build linux && (amd64 || arm64)

package core

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// Writing has to wait for the peer also where there is no request.
func TestWriteAfterDeadline(t *testing.T) {
	const most = 64
	for _, isTLS := range []bool{false, true} {
		ln, failed := listen(t), make(chan error, 1)
		a := &script{
			opened: func(c *conn) {
				c.SetReadDeadline(clock.Nanos(), 20*time.Millisecond)
				c.SetWriteTimeout(50 * time.Millisecond)
			},
			timedOut: func(c *conn) {
				var err error
				for p, n := make([]byte, 1<<20), 0; n < most && err == nil; n++ {
					_, err = c.Write(p)
				}
				failed <- err
			}}
		if isTLS {
			serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, a, engine.Options{})
			dialTLS(t, ln)
		} else {
			serveOn(t, ln, a, engine.Options{})
			dial(t, ln)
		}
		if err := <-failed; err == nil {
			t.Errorf("TLS %v: %d MiB were taken for a peer that reads nothing", isTLS, most)
		}
	}
}
