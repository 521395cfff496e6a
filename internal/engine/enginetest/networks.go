package enginetest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// A Network is a kind of connection to test engines on.
type Network struct {
	Name     string
	offers   needs
	isSocket bool // what Conn.IsSocket returns
	sleeps   bool // the sessions are Sleepers
	// header is what clients send before everything else, and the engine is told of; empty: nothing.
	header string
	listen func(t *testing.T) (net.Listener, dialer, error)
}

// A dialer connects, and sends header before everything else, if the network offers headers.
type dialer func(header string) (net.Conn, error)

// connect sends header on what it dials.
func connect(d *net.Dialer, network, addr, header string) (net.Conn, error) {
	c, err := d.Dial(network, addr)
	if err == nil && header != "" { // writing nothing fails on a unix socket that is closed
		_, err = io.WriteString(c, header)
	}
	return c, err
}

// Proxied returns network behind a proxy that speaks the PROXY protocol.
func Proxied(network Network) Network {
	network.Name += " proxied"
	network.header = "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n"
	return network
}

// Sleeping returns network with sessions that implement engine.Sleeper, which
// engines make use of or not.
func Sleeping(network Network) Network {
	network.Name += " sleeping"
	network.sleeps = true
	return network
}

// TCP is the loopback interface, without MPTCP.
func TCP() Network { return tcp("tcp", false) }

// tcp listens on the loopback interface. With multipath, which is what Go does
// when it is not told, the listener's socket is of another kind than those it
// accepts.
func tcp(name string, multipath bool) Network {
	return Network{name, halfClose | deadlines | buffered | bare | moves | headers, true, false, "", func(*testing.T) (net.Listener, dialer, error) {
		config := net.ListenConfig{Control: fixInput}
		config.SetMultipathTCP(multipath)
		ln, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		return ln, func(header string) (net.Conn, error) { return connect(loopback(), "tcp", ln.Addr().String(), header) }, nil
	}}
}

// loopback returns a dialler that uses one of the many loopback addresses: the
// ports of one are soon used up by connections in TIME-WAIT.
func loopback() *net.Dialer {
	if runtime.GOOS != "linux" {
		return &net.Dialer{}
	}
	var b [2]byte
	_, _ = rand.Read(b[:])
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 77, b[0], b[1])}}
}

// Wrapped is TCP, with MPTCP where there is, behind a listener that hides its
// type.
func Wrapped() Network {
	network := tcp("wrapped", true)
	listen := network.listen
	network.listen = func(t *testing.T) (net.Listener, dialer, error) {
		ln, dial, err := listen(t)
		return struct{ net.Listener }{ln}, dial, err
	}
	return network
}

// Unix is unix stream sockets.
func Unix() Network {
	return Network{"unix", halfClose | deadlines | buffered | bare | moves | headers, true, false, "", func(t *testing.T) (net.Listener, dialer, error) {
		path := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", path)
		if err != nil {
			return nil, nil, err
		}
		return ln, func(header string) (net.Conn, error) { return connect(&net.Dialer{}, "unix", path, header) }, nil
	}}
}

// TLS is TLS over the loopback interface, from tls.Listen.
func TLS() Network {
	return overTLS("tls", 0, tls.VersionTLS12, func(ln net.Listener, config *tls.Config) net.Listener { return tls.NewListener(ln, config) })
}

// TLSListener is TLS from an engine.TLSListener, whose connections engines may
// make on their own.
func TLSListener() Network {
	return overTLS("tls listener", headers, tls.VersionTLS12, func(ln net.Listener, config *tls.Config) net.Listener {
		return &engine.TLSListener{Listener: ln, Config: config}
	})
}

// CompactTLS is TLSListener with connections that are compact where the engine can do that.
func CompactTLS() Network {
	return overTLS("tls listener, compact", moves|headers, tls.VersionTLS13, func(ln net.Listener, config *tls.Config) net.Listener {
		return &engine.TLSListener{Listener: ln, Config: config, Compact: true}
	})
}

// overTLS has every other client speak an older version, beginning with the second.
func overTLS(name string, offers needs, older uint16, wrap func(net.Listener, *tls.Config) net.Listener) Network {
	return Network{name, halfClose | deadlines | buffered | handshakes | offers, false, false, "", func(t *testing.T) (net.Listener, dialer, error) {
		certificate, err := selfsigned.New("")
		if err != nil {
			return nil, nil, err
		}
		ln, _, err := TCP().listen(t)
		if err != nil {
			return nil, nil, err
		}
		var clients atomic.Uint32
		dial := func(header string) (net.Conn, error) {
			config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
			if clients.Add(1)%2 == 0 {
				config.MaxVersion = older
			}
			c, err := connect(loopback(), "tcp", ln.Addr().String(), header)
			if err != nil {
				return nil, err
			}
			client := tls.Client(c, config)
			if err := client.Handshake(); err != nil {
				_ = c.Close()
				return nil, err
			}
			return client, nil
		}
		return wrap(ln, &tls.Config{Certificates: []tls.Certificate{certificate}}), dial, nil
	}}
}

// Pipe is net.Pipe: in memory, without any buffer.
func Pipe() Network {
	return Network{"pipe", deadlines, false, false, "", func(*testing.T) (net.Listener, dialer, error) {
		ln := nettest.NewListener()
		return ln, func(string) (net.Conn, error) { return ln.Dial() }, nil
	}}
}

// DeafPipe is Pipe with a server's end that ignores deadlines.
func DeafPipe() Network {
	return Network{"deaf", 0, false, false, "", func(*testing.T) (net.Listener, dialer, error) {
		ln := nettest.NewListener()
		ln.Wrap = func(c net.Conn) net.Conn { return nettest.NoDeadlines{Conn: c} }
		return ln, func(string) (net.Conn, error) { return ln.Dial() }, nil
	}}
}
