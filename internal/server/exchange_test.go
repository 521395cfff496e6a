package server

import (
	"errors"
	"net"
	"os"
	"testing"
)

// A request that did not arrive in time is a time-out to every kind of check.
func TestErrTimeout(t *testing.T) {
	var netErr net.Error
	if !errors.As(ErrTimeout, &netErr) || !netErr.Timeout() || !errors.Is(ErrTimeout, os.ErrDeadlineExceeded) {
		t.Errorf("%v is no time-out", ErrTimeout)
	}
	if !netErr.Temporary() || netErr.Error() == "" {
		t.Errorf("%v: another request may arrive in time", ErrTimeout)
	}
}
