package tcp_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// TestAdoptSocket is TestAdoptConn with a bare descriptor.
func TestAdoptSocket(t *testing.T) {
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		t.Run(e.String(), func(t *testing.T) {
			s, heard, closed := asker(t, e)
			fd, other := socketOf(t)
			if err := s.AdoptSocket(fd); err != nil {
				t.Fatal(err)
			}
			checkAsked(t, s, &client{other}, heard, closed)
		})
	}
	if new(tcp.Server).AdoptSocket(-1) == nil {
		t.Error("a descriptor that is none was adopted")
	}
}

// socketOf returns one end of a connection as a descriptor.
func socketOf(t *testing.T) (fd int, other net.Conn) {
	t.Helper()
	mine, other := pairOf(t, "tcp")
	control, err := mine.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = control.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) })
	if err != nil {
		t.Fatal(err)
	}
	_ = mine.Close()
	return fd, other
}

// TestAdoptTLS: with TLSConfig, an adopted connection uses TLS, never clear text.
func TestAdoptTLS(t *testing.T) {
	var config *tls.Config
	for _, n := range networks(t) {
		if n.tls != nil {
			config = n.tls
		}
	}
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		for name, adopt := range map[string]func(t *testing.T, s *tcp.Server) (other net.Conn){
			"socket": func(t *testing.T, s *tcp.Server) net.Conn {
				fd, other := socketOf(t)
				if err := s.AdoptSocket(fd); err != nil {
					t.Fatal(err)
				}
				return other
			},
			"conn": func(t *testing.T, s *tcp.Server) net.Conn {
				mine, other := pairOf(t, "tcp")
				if err := s.AdoptConn(mine); err != nil {
					t.Fatal(err)
				}
				return other
			},
			"ServeConn": func(t *testing.T, s *tcp.Server) net.Conn {
				mine, other := pairOf(t, "tcp")
				go func() {
					if err := s.ServeConn(mine); err != nil {
						t.Errorf("ServeConn: %v", err)
					}
				}()
				return other
			},
		} {
			t.Run(e.String()+"/"+name, func(t *testing.T) {
				s, heard, closed := asker(t, e)
				s.TLSConfig = config
				other := adopt(t, s)
				checkAsked(t, s, &client{tls.Client(other, &tls.Config{InsecureSkipVerify: true})}, heard, closed)
			})
		}
	}
}

// TestAdoptSocketRefused: the Server owns the descriptor, and closes it even if it
// cannot serve it.
func TestAdoptSocketRefused(t *testing.T) {
	for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
		fd, other := socketOf(t)
		if err := (&tcp.Server{Engine: e}).AdoptSocket(fd); err == nil {
			t.Errorf("engine %v: a Server without a handler has adopted a socket", e)
		}
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("engine %v: the refused connection: %v, want io.EOF", e, err)
		}

		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fd, err = syscall.Dup(int(w.Fd()))
		_ = w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := (&tcp.Server{Engine: e, Handler: echo}).AdoptSocket(fd); err == nil {
			t.Errorf("engine %v: a pipe was adopted", e)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("engine %v: the pipe: %v, want io.EOF", e, err)
		}
		_ = r.Close()
	}
}
