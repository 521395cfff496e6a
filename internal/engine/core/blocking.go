//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A blockingConn is what the net.Conn of Conn.Blocking works on.
type blockingConn struct {
	*conn
	addresses net.Conn
	signals   *signals
}

var _ engine.BlockingHost = (*blockingConn)(nil)

// LocalAddr implements engine.BlockingHost.
func (b *blockingConn) LocalAddr() net.Addr { return b.addresses.LocalAddr() }

// RemoteAddr implements engine.BlockingHost.
func (b *blockingConn) RemoteAddr() net.Addr { return b.addresses.RemoteAddr() }

// InterruptRead implements engine.BlockingHost.
func (b *blockingConn) InterruptRead(time.Time) { b.signals.input.tell() }

// InterruptWrite implements engine.BlockingHost.
func (b *blockingConn) InterruptWrite(time.Time) { b.signals.output.tell() }

// CloseWrite implements engine.BlockingHost.
func (b *blockingConn) CloseWrite() error {
	if b.tlsConn != nil {
		return b.tlsConn.session.CloseWrite()
	}
	return os.NewSyscallError("shutdown", syscall.Shutdown(b.fd, syscall.SHUT_WR))
}
