package engine

import (
	"net"
	"testing"
	"time"
)

// An AddressOnly does nothing.
func TestAddressOnly(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c := AddressOnly{ours, net.ErrClosed}
	_, readErr := c.Read(make([]byte, 1))
	_, writeErr := c.Write([]byte("x"))
	for what, err := range map[string]error{"Read": readErr, "Write": writeErr, "Close": c.Close(), "SetDeadline": c.SetDeadline(time.Unix(1, 0)),
		"SetReadDeadline": c.SetReadDeadline(time.Unix(1, 0)), "SetWriteDeadline": c.SetWriteDeadline(time.Unix(1, 0))} {
		if err != net.ErrClosed {
			t.Errorf("%s: %v", what, err)
		}
	}
	go func() { _, _ = theirs.Write([]byte("y")) }()
	if n, err := ours.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the connection itself: %d, %v", n, err)
	}
}
