package server_test

import (
	"errors"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
)

// failingClose is a listener whose Close fails.
type failingClose struct {
	net.Listener
	err error
}

func (l failingClose) Close() error {
	l.Listener.Close()
	return l.err
}

// TestShutdownReturnsErrorsOfListeners, except that they are closed already.
func TestShutdownReturnsErrorsOfListeners(t *testing.T) {
	failure := errors.New("of Close")
	for _, test := range []struct{ of, want error }{{nil, nil}, {net.ErrClosed, nil}, {failure, failure}} {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := quietServer(func(*sluice.RequestCtx) {})
		s.Engine = sluice.EnginePerConn
		served := make(chan error, 1)
		go func() { served <- s.Serve(failingClose{ln, test.of}) }()
		c, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(simpleGet))
		_, _ = c.Read(make([]byte, 1)) // then Serve has begun
		c.Close()
		if err := s.Shutdown(); err != test.want {
			t.Errorf("Shutdown: %v, want %v", err, test.want)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}
