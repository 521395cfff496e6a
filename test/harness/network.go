package harness

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/tcplisten"
)

// Scheme is the scheme of requests over n.
func (n Network) Scheme() string {
	if strings.HasPrefix(n.Name, "tls/") {
		return "https"
	}
	return "http"
}

// A Network is a kind of connection that servers are tested over.
type Network struct {
	Name    string
	Engine  sluice.Engine // of servers that choose none
	Secure  *tls.Config   // of servers, which then use ServeTLS
	Compact bool          // of servers: CompactTLS
	Listen  func(t *testing.T) (net.Listener, func() (net.Conn, error))
}

// OverTCP is served by the engine that servers choose for it.
func OverTCP() Network {
	return Network{Name: "tcp", Listen: func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		ln, err := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	}}
}

func InMemory() Network {
	return Network{Name: "memory", Listen: func(*testing.T) (net.Listener, func() (net.Conn, error)) {
		ln := fasthttputil.NewInmemoryListener()
		return ln, func() (net.Conn, error) { return ln.Dial() }
	}}
}

// By is n with servers that use one engine.
func (n Network) By(e sluice.Engine) Network {
	n.Name += "/" + e.String()
	n.Engine = e
	return n
}

// OverTCPByEach is OverTCP by each engine that this system has.
func OverTCPByEach() []Network {
	perConn := OverTCP().By(sluice.EnginePerConn)
	if HasEpoll() {
		return []Network{OverTCP().By(sluice.EngineEpoll), perConn}
	}
	return []Network{perConn}
}

// HasEpoll reports whether sockets are served by sluice.EngineEpoll here.
func HasEpoll() bool {
	s := &sluice.Server{}
	defer s.Shutdown()
	return s.EngineInfo(nil).Engine == sluice.EngineEpoll
}

// OnEachNetwork runs a test over TCP, by each engine, and in memory.
func OnEachNetwork(t *testing.T, test func(t *testing.T, n Network)) {
	t.Helper()
	for _, n := range append(OverTCPByEach(), InMemory()) {
		t.Run(n.Name, func(t *testing.T) { test(t, n) })
	}
}

// OnEpoll skips a test where there is no event engine.
func OnEpoll(t *testing.T) Network {
	t.Helper()
	if !HasEpoll() {
		t.Skip("there is no event engine here")
	}
	return OverTCP().By(sluice.EngineEpoll)
}
