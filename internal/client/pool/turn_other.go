//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package pool

import (
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
)

// ErrNotQuiet is not returned on this system.
var ErrNotQuiet = errors.New("sluice: an idle connection is closed or has unread bytes")

// A Turn writes a request and waits for the response. On this system it cannot: the
// client calls Write and Read.
type Turn struct{}

// Init does nothing.
func (*Turn) Init(net.Conn) {}

// CanTake returns false.
func (*Turn) CanTake() bool { return false }

// Take is not called.
func (*Turn) Take(_, _ []byte, _ engine.Holder) (written, n int, err error) {
	return 0, 0, errors.ErrUnsupported
}
