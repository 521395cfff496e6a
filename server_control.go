package sluice

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"slices"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// ErrServerClosed says that the server did not take a connection because it is
// shut down.
var ErrServerClosed = errors.New("sluice: server is shut down")

// ServerControl is what a process manager needs of a Server, such as package
// prefork: it moves live connections and listeners between processes, watches
// the server, and counts. Server.Control returns it. Its methods are safe for
// concurrent use. Its fields must not be changed after the server's first use.
type ServerControl struct {
	// Meter holds the atomic counters that the server updates: connections,
	// requests and bytes. If nil, the server counts nothing.
	Meter *Meter

	// Divert is called for every connection that is accepted from a listener and
	// is a bare TCP or unix socket, before the server does anything else with it.
	// If it returns true, Divert has taken ownership: it has duplicated the
	// descriptor fd, or sent it to another process. The server then closes fd and
	// forgets the connection. Divert must not block, close fd, or call the server.
	// The other process serves the connection with AdoptSocket.
	Divert func(fd int) bool

	server *Server
}

// Control returns the ServerControl of s, always the same one.
func (s *Server) Control() *ServerControl {
	s.state.Lock()
	defer s.state.Unlock()
	if s.control.server == nil { // others may use it already
		s.control.server = s
	}
	return &s.control
}

// Handshakes returns how many clients of HTTP/3 have begun a handshake that is not complete.
// GetOpenConnectionsCount counts a connection before Handshakes ceases to count it.
func (c *ServerControl) Handshakes() int { return c.server.http3Gauges().handshakes() }

// Value returns what packages of this module need to know of the server, under keys that
// they alone can name; nil for any other key.
func (c *ServerControl) Value(key any) any {
	switch key {
	case any(upgrade.Key{}):
		return &c.server.upgrades
	case any(server.Key{}):
		return server.Host(newAcceptor(c.server, c.server.config()))
	case any(server.AttachKey{}):
		return server.Attacher((*attacher)(c.server))
	}
	return nil
}

// A Parcel is what a connection takes along from ServerControl.HandOver to AdoptConn or
// AdoptSocket.
type Parcel struct {
	// Leftover is input that was already read from the connection. It is served first.
	Leftover []byte
	// State is what a server knows of a connection that speaks HTTP/2, or that has left
	// HTTP/1.1, as WebSockets have; nil for HTTP/1.1. See Kind.
	State []byte
	// TLS is the record layer of a connection of a server with CompactTLS, with its keys; nil
	// for others. It is a secret. Whoever sends it overwrites it afterwards, and never gives
	// it to two servers: they would encrypt with the same numbers.
	TLS []byte
	// Proxy is the header of the PROXY protocol with which the connection of a server with
	// ProxyProtocol began; nil for other servers. A Parcel without anything is that of a new
	// connection, whose header is still to come.
	Proxy []byte
}

// Kind returns what a server must understand to take the connection over: members of the
// set ServerControl.StateKinds. 0 means that every server can.
func (p Parcel) Kind() (kind uint64) {
	if len(p.TLS) > 0 {
		kind = stateKind(kindOfTLS(p.TLS[0]))
	}
	if len(p.Proxy) > 0 {
		kind |= stateKind(kindOfProxy)
	}
	if len(p.State) == 0 {
		return kind
	}
	if s, ok := upgrade.ParseState(p.State); ok {
		return kind | stateKind(s.Name)
	}
	return kind | stateKind(string(p.State[:1])) // HTTP/2: its version
}

// kindOfTLS returns the name of a version of Parcel.TLS.
func kindOfTLS(version byte) string { return "TLS " + string('0'+rune(version)) }

// kindOfProxy is the name of Parcel.Proxy, which a server without ProxyProtocol understands, too.
const kindOfProxy = "PROXY"

// stateKind returns the member of a set of kinds that name stands for. There are 64
// members, so two names may share one. A server then closes what it does not understand.
func stateKind(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return 1 << (h.Sum64() & 63) // the last byte moves the low bits: versions must differ
}

// HandOver takes up to limit connections away from the server, all if limit is
// negative. It selects connections that are between requests, or in the middle
// of a request's header in HTTP/1.1. It calls take for each, one after the other, on
// the caller's goroutine, and returns their number.
//
// take owns the connection and the Parcel that it receives. Pass both to another
// server's AdoptConn, in this process or in another one, to which the socket is sent:
// that server continues to serve it, and the client does not notice. Later input is in
// the socket. take must not call HandOver.
//
// HandOver gives only bare TCP and unix sockets that the server has accepted or
// adopted, and TLS connections on them that are compact, see Server.CompactTLS. Other TLS
// connections, connections of ServeConn, and connections of any other type stay. A connection with a request in progress stays until the next
// call, and one of HTTP/2 that has sent GOAWAY stays until its end. WebSockets are given if
// their Endpoint is registered. For this server, a
// connection that is handed over has ended: ConnState receives StateClosed, and limits
// no longer count it. Its next server counts MaxRequestsPerConn and
// MaxKeepaliveDuration from the beginning.
func (c *ServerControl) HandOver(limit int, take func(c net.Conn, p Parcel)) int {
	e := c.server.currentEngine()
	if e == nil {
		return 0
	}
	return e.DetachIdle(limit, func(conn net.Conn, p engine.Parcel) { take(conn, Parcel(p)) })
}

// StateKinds returns the set of the kinds of Parcel.State that AdoptConn understands. It is
// complete when the server's Endpoints are registered. Give connections of other kinds back
// to the server that gave them: after its CloseOnNextResponse it ends them in order.
func (c *ServerControl) StateKinds() uint64 {
	kinds := stateKind(kindOfProxy)
	if !c.server.HTTP2.Disable {
		kinds |= stateKind(string([]byte{byte(http2.StateVersion)}))
	}
	if c.server.EngineInfo(nil).CompactTLS {
		kinds |= stateKind(kindOfTLS(compact.SavedVersion))
	}
	for _, family := range c.server.upgrades.Families() {
		kinds |= stateKind(family.Name())
	}
	return kinds
}

// AdoptConn serves conn as if the server had accepted it, and returns at once.
// The server owns conn from the call on, even when AdoptConn returns an error.
// It copies p; the zero value is that of a new connection. Limits, hooks, IdleTimeout and
// Shutdown apply as to other connections.
//
// AdoptConn does not need a Serve. After Shutdown it closes conn and returns
// ErrServerClosed, until the server serves again.
//
// EngineEpoll serves a *net.TCPConn or *net.UnixConn by its own descriptor, and
// closes conn. AdoptSocket avoids this duplication.
func (c *ServerControl) AdoptConn(conn net.Conn, p Parcel) error {
	e, a, err := c.server.adopting(p)
	if err == nil {
		return closedError(e.AdoptConn(conn, engine.Parcel(p), a))
	}
	conn.Close()
	return err
}

// AdoptSocket is AdoptConn for the descriptor of a connected stream socket, TCP
// or unix. The server owns fd from the call on, even when AdoptSocket returns
// an error.
func (c *ServerControl) AdoptSocket(fd int, p Parcel) error {
	e, a, err := c.server.adopting(p)
	if err == nil {
		return closedError(choose.AdoptSocket(e, fd, engine.Parcel(p), a))
	}
	if conn, err := choose.SocketConn(fd); err == nil { // closes fd on every system
		conn.Close()
	}
	return err
}

// ServeConn is Server.ServeConn for a connection from which leftover was already
// read. The server serves leftover first.
func (c *ServerControl) ServeConn(conn net.Conn, leftover []byte) error {
	return c.server.serveConnFrom(conn, leftover)
}

// StopAccepting ends the Serve or ServeTLS of ln and closes ln. The server
// keeps serving connections that it has accepted. Use it for a listener whose
// socket other processes share, such as those of package prefork: they keep
// accepting.
func (c *ServerControl) StopAccepting(ln net.Listener) error {
	if accepting, ok := c.server.currentEngine().(engine.Accepting); ok {
		accepting.StopAccepting(ln)
	}
	return ln.Close()
}

// CloseOnNextResponse makes the server answer every further request with
// "Connection: close". It leaves idle connections open; their next request is
// their last one. Clients that speak HTTP/2 or HTTP/3 receive GOAWAY at once, and the
// connection closes after their open requests. A new connection of HTTP/2 receives it with its
// first request, or two seconds after its beginning. Use CloseOnNextResponse to move clients to
// another server without an error.
func (c *ServerControl) CloseOnNextResponse() {
	s := c.server
	s.state.Lock()
	e := s.engineLocked()
	e.CloseOnNextResponse()
	s.gauges.isClosing.Store(true) // second, because streams of HTTP/2 then ask the engine
	attached := slices.Clone(s.state.attached)
	s.state.Unlock()
	for _, a := range attached {
		a.protocol.CloseOnNextResponse()
	}
	if !s.HTTP2.Disable || !s.upgrades.IsEmpty() {
		e.Nudge()
	}
}

// IsServing reports whether the server accepts connections from a listener, and Shutdown and
// CloseOnNextResponse were not called since it began.
func (c *ServerControl) IsServing() bool {
	listeners, _ := c.server.state.Counts()
	return listeners > 0 && !c.server.closeRequested()
}

// Probe returns nil when every event loop of the server has completed one turn,
// and ctx's error if ctx ends first. EnginePerConn has no event loops, nor has
// a server that does not serve; Probe then returns ctx.Err() at once. It does
// not wait for handlers.
func (c *ServerControl) Probe(ctx context.Context) error {
	if prober, ok := c.server.currentEngine().(engine.Prober); ok {
		return prober.Probe(ctx)
	}
	return ctx.Err()
}

// currentEngine returns the engine in use, nil if there is none.
func (s *Server) currentEngine() engine.Engine {
	s.state.Lock()
	defer s.state.Unlock()
	return s.state.Engine
}

// adopting returns the engine and the acceptor for adopted connections. All
// share one acceptor, because engines compare acceptors and expect few.
func (s *Server) adopting(p Parcel) (engine.Engine, *acceptor, error) {
	if s.Handler == nil {
		return nil, nil, errNoHandler
	}
	if len(p.TLS) > 0 && !s.CompactTLS {
		return nil, nil, engine.ErrCompact
	}
	s.state.Lock()
	defer s.state.Unlock()
	if s.state.isShutDown {
		return nil, nil, ErrServerClosed
	}
	e := s.engineLocked()
	if s.state.adopting == nil {
		s.state.adopting = newAcceptor(s, s.config())
	}
	return e, s.state.adopting, nil
}

// closedError replaces engine.ErrShutdown with ErrServerClosed.
func closedError(err error) error {
	if err == engine.ErrShutdown {
		return ErrServerClosed
	}
	return err
}
