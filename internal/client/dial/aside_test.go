package dial

import (
	"context"
	"errors"
	"net"
	"testing"
)

func TestAside(t *testing.T) {
	conn, failed := &fakeConn{}, errors.New("failed")
	if got, err := Aside(t.Context(), func() (net.Conn, error) { return conn, nil }); got != conn || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Aside(t.Context(), func() (net.Conn, error) { return nil, failed }); got != nil || err != failed {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Aside(t.Context(), func() (net.Conn, error) { panic("boo") }); got != nil || !errors.Is(err, errDialerPanicked) || err.Error() != "sluice: the dialer panicked: boo" {
		t.Errorf("a panic: %v, %v", got, err)
	}
}

// closingConn tells when it is closed.
type closingConn struct {
	net.Conn
	closed chan bool
}

func (c *closingConn) Close() error { close(c.closed); return nil }

// TestAsideComesTooLate: a connection that no caller waits for is closed.
func TestAsideComesTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	late, goOn := &closingConn{closed: make(chan bool)}, make(chan bool)
	got, err := Aside(ctx, func() (net.Conn, error) {
		cancel()
		<-goOn
		return late, nil
	})
	if got != nil || err != context.Canceled {
		t.Errorf("%v, %v", got, err)
	}
	close(goOn)
	<-late.closed
}
