//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package netconn

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// TestWriteReady: a socket takes what there is room for, without an allocation. What is no
// bare socket takes nothing.
func TestWriteReady(t *testing.T) {
	client, nc := nettest.TCPPair(t)
	c, pieces, got := &conn{nc: nc}, [][]byte{[]byte("head "), []byte("payload")}, make([]byte, 12)
	var v net.Buffers
	var parts [2][]byte
	allocs := testing.AllocsPerRun(100, func() {
		copy(parts[:], pieces)
		v = parts[:]
		if n := c.WriteReady(&v); n != 12 || len(v) != 0 {
			t.Fatalf("%d bytes were written, %d pieces are left", n, len(v))
		}
		if _, err := io.ReadFull(client, got); err != nil || string(got) != "head payload" {
			t.Fatalf("got %q, %v", got, err)
		}
	})
	if allocs != 0 && !invariants.Enabled {
		t.Errorf("%v allocations", allocs)
	}
	long := []byte(strings.Repeat("x", 64<<20))
	left := net.Buffers{long}
	for n := int64(-1); n != 0; {
		n = c.WriteReady(&left)
	}
	if len(left) != 1 || len(left[0]) == 0 || len(left[0]) == len(long) {
		t.Errorf("of a write that does not go at once, %d buffers are left", len(left))
	}
	wrapped := &conn{nc: struct{ net.Conn }{nc}}
	if n := wrapped.WriteReady(&left); n != 0 {
		t.Errorf("a wrapped connection took %d bytes", n)
	}
}
