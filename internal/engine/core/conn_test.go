//go:build linux && (amd64 || arm64)

package core

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// serveConns serves a with and without TLS and runs f with a connection of each.
func serveConns(t *testing.T, a *script, f func(t *testing.T, d *driver, peer net.Conn)) {
	t.Run("tcp", func(t *testing.T) {
		ln := listen(t)
		f(t, serveOn(t, ln, a, engine.Options{}), dial(t, ln))
	})
	t.Run("tls", func(t *testing.T) {
		ln := listen(t)
		f(t, serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, a, engine.Options{}), dialTLS(t, ln))
	})
}

// What a protocol is told of its connection is what its peer is told.
func TestAddressesOfAConn(t *testing.T) {
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		inputOf(c)
		out = append(out, c.LocalAddr().String()+" "+c.RemoteAddr().String()+" "+c.NetConn().RemoteAddr().String()+" "...)
		if c.IsSocket() {
			out = append(out, "bare "...)
		}
		return append(out, '.'), engine.Read
	}}
	serveConns(t, a, func(t *testing.T, d *driver, peer net.Conn) {
		mine := peer.LocalAddr().String()
		want := peer.RemoteAddr().String() + " " + mine + " " + mine + " "
		if _, isTLS := peer.(interface{ Handshake() error }); !isTLS {
			want += "bare "
		}
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		expect(t, peer, want+".")
	})
}

// WriteBuffers waits for a slow peer, and its bytes arrive in order.
func TestWriteBuffers(t *testing.T) {
	const size = 8 << 20
	first, second := bytes.Repeat([]byte("1"), size), bytes.Repeat([]byte("2"), size)
	wrote := make(chan error, 1)
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		inputOf(c)
		v := net.Buffers{[]byte("begin"), first, second, []byte("end")}
		n, err := c.WriteBuffers(&v)
		if err == nil && (n != 2*size+8 || len(v) != 0) {
			t.Errorf("%d bytes were written, %d buffers are left", n, len(v))
		}
		wrote <- err
		return out, engine.Read
	}}
	serveConns(t, a, func(t *testing.T, d *driver, peer net.Conn) {
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2*size+8)
		if _, err := io.ReadFull(peer, got); err != nil || <-wrote != nil {
			t.Fatal(err)
		}
		if want := bytes.Join([][]byte{[]byte("begin"), first, second, []byte("end")}, nil); !bytes.Equal(got, want) {
			t.Error("other bytes arrived")
		}
	})
}

// WriteBuffers ends with an error if the peer reads nothing for the write time-out, or is gone.
func TestWriteBuffersFails(t *testing.T) {
	wrote := make(chan error, 1)
	a := &script{
		opened: func(c *conn) { c.SetWriteTimeout(20 * time.Millisecond) },
		run: func(c *conn, out []byte) ([]byte, engine.Next) {
			inputOf(c)
			p := make([]byte, 1<<20)
			for range 64 {
				if _, err := c.WriteBuffers(&net.Buffers{p, p}); err != nil {
					wrote <- err
					return out, engine.Abort
				}
			}
			wrote <- nil
			return out, engine.Read
		},
	}
	serveConns(t, a, func(t *testing.T, d *driver, peer net.Conn) {
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err == nil {
			t.Error("128 MiB were taken for a peer that reads nothing")
		}
	})
}

// WriteReady writes what there is room for, and nothing through TLS.
func TestWriteReady(t *testing.T) {
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		inputOf(c)
		v := net.Buffers{[]byte("rea"), []byte("dy")}
		n := c.WriteReady(&v)
		if isBare := c.IsSocket(); isBare != (n == 5) || isBare != (len(v) == 0) {
			t.Errorf("%d bytes were written, %d buffers are left", n, len(v))
		}
		for _, p := range v {
			out = append(out, p...)
		}
		return out, engine.Read
	}}
	serveConns(t, a, func(t *testing.T, d *driver, peer net.Conn) {
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		expect(t, peer, "ready")
	})
}

// The last function is told that the peer is gone, also if it was gone before.
func TestPeerGone(t *testing.T) {
	for _, before := range []bool{false, true} {
		asked, told, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		ln := listen(t)
		serveOn(t, ln, &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
			inputOf(c)
			if before {
				<-ended
			}
			if !before {
				c.OnPeerGone(func() { t.Error("a function was told that another one has replaced") })
			}
			c.OnPeerGone(func() { close(told) })
			asked <- struct{}{}
			<-told
			return out, engine.Close
		}}, engine.Options{})
		peer := dial(t, ln)
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if !before {
			<-asked
		}
		_ = peer.Close()
		close(ended)
		<-told
	}
}
