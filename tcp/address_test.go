package tcp_test

import (
	"net"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// TestAddresses: a connection and its Sender return both addresses, in every
// callback, with OnClose and without it.
func TestAddresses(t *testing.T) {
	type seen struct {
		where         string
		local, remote net.Addr
	}
	for _, hasOnClose := range []bool{false, true} {
		eachFixture(t, func(t *testing.T, f fixture) {
			got := make(chan seen, 3)
			server := &tcp.Server{
				OnOpen: func(c *tcp.Conn) error {
					got <- seen{"OnOpen", c.LocalAddr(), c.RemoteAddr()}
					return nil
				},
				Handler: func(c *tcp.Conn, in []byte) (int, error) {
					got <- seen{"the handler", c.LocalAddr(), c.RemoteAddr()}
					got <- seen{"its Sender", c.Sender().LocalAddr(), c.Sender().RemoteAddr()}
					return c.Write(in)
				},
			}
			if hasOnClose {
				server.OnClose = func(c *tcp.Conn, _ error) { got <- seen{"OnClose", c.LocalAddr(), c.RemoteAddr()} }
			}
			s := f.start(t, server)
			c := s.connect(t)
			c.ask(t, "x", "x")
			count := 3
			if hasOnClose {
				count = 4
				_ = c.Close()
			}
			for range count {
				s := <-got
				if s.local == nil || s.remote == nil {
					t.Errorf("%s saw %v and %v", s.where, s.local, s.remote)
					continue
				}
				if s.local.String() != c.RemoteAddr().String() || s.remote.String() != c.LocalAddr().String() {
					t.Errorf("%s saw %v and %v, the client %v and %v", s.where, s.local, s.remote, c.LocalAddr(), c.RemoteAddr())
				}
			}
		})
	}
}
