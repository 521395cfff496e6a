//go:build linux && (amd64 || arm64)

package epoll

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A guest is what the net.Conn of Conn.Blocking works on.
type guest struct {
	*conn
	addresses net.Conn
	signals   *signals
}

var _ engine.BlockingHost = (*guest)(nil)

// LocalAddr implements engine.BlockingHost.
func (g *guest) LocalAddr() net.Addr { return g.addresses.LocalAddr() }

// RemoteAddr implements engine.BlockingHost.
func (g *guest) RemoteAddr() net.Addr { return g.addresses.RemoteAddr() }

// InterruptRead implements engine.BlockingHost.
func (g *guest) InterruptRead(time.Time) { tell(g.signals.input) }

// InterruptWrite implements engine.BlockingHost.
func (g *guest) InterruptWrite(time.Time) { tell(g.signals.output) }
