package tcp_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// TestDetachedHalfClose: a detached connection can say that it sends no more,
// and read on, also one with input that the handler has left.
func TestDetachedHalfClose(t *testing.T) {
	for name, sent := range map[string]string{"nothing left": "detach\n", "input left": "detach\nleft"} {
		t.Run(name, func(t *testing.T) {
			eachFixture(t, func(t *testing.T, f fixture) {
				if f.network.name == "pipe" {
					t.SkipNow() // cannot
				}
				heard := make(chan string, 1)
				s := f.start(t, &tcp.Server{Handler: func(c *tcp.Conn, in []byte) (int, error) {
					if len(in) < len(sent) {
						return 0, nil
					}
					c.Detach(func(conn net.Conn) {
						defer conn.Close()
						half, ok := conn.(interface{ CloseWrite() error })
						if !ok {
							t.Errorf("a %T has no CloseWrite", conn)
							return
						}
						if err := half.CloseWrite(); err != nil {
							t.Errorf("CloseWrite: %v", err)
						}
						text, err := io.ReadAll(conn)
						if err != nil {
							t.Errorf("reading on: %v", err)
						}
						heard <- string(text)
					})
					return len("detach\n"), nil
				}})
				c := s.connect(t)
				c.send(t, sent[:3]) // what comes in two pieces is kept in the session
				c.send(t, sent[3:])
				if text, err := io.ReadAll(c.Conn); err != nil || len(text) != 0 {
					t.Fatalf("got %q, %v; want the end", text, err)
				}
				c.send(t, " and more")
				if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				if got, want := <-heard, sent[len("detach\n"):]+" and more"; got != want {
					t.Errorf("the detached connection heard %q, want %q", got, want)
				}
			})
		})
	}
}

// TestDetachedConnBeneath: what is detached shows its TLS, also with input that
// the handler has left.
func TestDetachedConnBeneath(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		if f.network.tls == nil {
			t.SkipNow()
		}
		found := make(chan bool, 1)
		s := f.start(t, &tcp.Server{Handler: func(c *tcp.Conn, in []byte) (int, error) {
			if len(in) < 4 {
				return 0, nil
			}
			c.Detach(func(conn net.Conn) {
				defer conn.Close()
				_, hasTLS := beneath(conn)
				found <- hasTLS
			})
			return 1, nil
		}})
		c := s.connect(t)
		c.send(t, "ab")
		c.send(t, "cd")
		if !<-found {
			t.Error("no *tls.Conn beneath what was detached")
		}
	})
}

// beneath looks for a *tls.Conn.
func beneath(conn net.Conn) (*tls.Conn, bool) {
	for {
		if found, ok := conn.(*tls.Conn); ok {
			return found, true
		}
		over, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil, false
		}
		conn = over.NetConn()
	}
}
