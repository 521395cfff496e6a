package tcp_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// TestDetachedHalfClose: a detached connection can close its sending side and still
// read, also with input that the handler has not used.
func TestDetachedHalfClose(t *testing.T) {
	for name, sent := range map[string]string{"nothing left": "detach\n", "input left": "detach\nleft"} {
		t.Run(name, func(t *testing.T) {
			eachFixture(t, func(t *testing.T, f fixture) {
				if f.network.name == "pipe" {
					t.SkipNow() // it has no CloseWrite
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
				c.send(t, sent[:3]) // an incomplete message is kept in the session
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

// TestDetachedConnBeneath: a detached connection gives access to its TLS, also with
// input that the handler has not used.
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
