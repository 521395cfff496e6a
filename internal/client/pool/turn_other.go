//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package pool

import (
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
)

// ErrNotQuiet is not returned on this system.
var ErrNotQuiet = errors.New("sluice: an idle connection is closed or has unread bytes")

// ErrNothingArrived is not returned on this system.
var ErrNothingArrived = errors.New("sluice: the beginning of the response has not arrived")

// A Turn writes a request and waits for the response. On this system it cannot: the
// client calls Write and Read.
type Turn struct{}

// Init does nothing.
func (*Turn) Init(net.Conn, func() error) {}

// CanTake returns false.
func (*Turn) CanTake() bool { return false }

// Take is not called.
func (*Turn) Take([]byte, engine.Holder) (written int, err error) { return 0, errors.ErrUnsupported }

// Read is not called.
func (*Turn) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }
