package websockets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"unicode/utf8"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

// Kinds of servers.
const (
	epoll    = "epoll"   // Sluice, callbacks on event loops
	perConn  = "perconn" // Sluice, callbacks, a goroutine per connection
	accept   = "accept"  // Sluice, event loops, and a goroutine that reads in a loop
	gws      = "gws"
	gorilla  = "gorilla"
	fastHTTP = "fasthttp"
	coder    = "coder"
	gobwas   = "gobwas"
	bare     = "write(2)" // gobwas, whose sockets a loop of write(2) sends to
	floor    = "floor"    // epoll_wait(2), read(2), write(2)
	before   = "before"   // epoll, in the program of --before
)

const (
	lobby     = "lobby"
	readLimit = 1 << 20

	serveRole        = "websocket serve"
	broadcastCommand = "broadcast" // and the message
)

// A server serves WebSockets.
type server interface {
	Serve(ln net.Listener) error
	// broadcast sends a text to all connections.
	broadcast(text []byte) (sent int, err error)
}

// answer is what all handlers do with a message: they check that it is text, and make the
// answer from it.
func answer(isText bool, message []byte) error {
	if !isText || len(message) == 0 {
		return errors.New("a text is wanted")
	}
	message[0] ^= ' ' // the other case
	return nil
}

// answerUnchecked is answer for libraries that do not check whether texts are UTF-8, as
// RFC 6455 section 8.1 demands.
func answerUnchecked(isText bool, message []byte) error {
	if !utf8.Valid(message) {
		return errors.New("not UTF-8")
	}
	return answer(isText, message)
}

// Roles are what the processes do that the subcommand starts.
func Roles() map[string]process.Role {
	return map[string]process.Role{serveRole: process.ServiceRole(newService), holdRole: hold}
}

// StartOurs starts Sluice with callbacks on event loops.
func StartOurs(ctx context.Context, o process.Options) (*process.Server, error) {
	return process.StartService(ctx, o, serveRole, epoll)
}

// newService is the service of a server's process.
func newService(config []byte) (s process.Service, err error) {
	var kind string
	if err := json.Unmarshal(config, &kind); err != nil {
		return s, err
	}
	server, err := newServer(kind)
	if err != nil {
		return s, err
	}
	return process.Service{Serve: server.Serve, Answers: map[string]func(string) (any, error){
		broadcastCommand: func(text string) (any, error) { return server.broadcast([]byte(text)) },
	}}, nil
}

func newServer(kind string) (server, error) {
	switch kind {
	case epoll, perConn, accept:
		return newSluice(kind)
	case gws:
		return newGWS(), nil
	case gorilla:
		return newGorilla(), nil
	case fastHTTP:
		return newFastHTTP(), nil
	case coder:
		return newCoder(), nil
	case gobwas:
		return newGobwas(), nil
	case floor:
		return newFloor()
	case bare:
		return &bareServer{gobwasServer: newGobwas()}, nil
	}
	return nil, fmt.Errorf("no server %q", kind)
}

// A sluiceServer has all connections in one room.
type sluiceServer struct {
	sluice.Server
	hub *room.Hub
}

func newSluice(kind string) (*sluiceServer, error) {
	hub, err := room.New(room.Options{})
	if err != nil {
		return nil, err
	}
	s := &sluiceServer{hub: hub}
	if s.Engine = sluice.EngineEpoll; kind == perConn {
		s.Engine = sluice.EnginePerConn
	}
	endpoint := &websocket.Endpoint{
		ReadLimit: readLimit,
		PingAfter: -1, // the peers send none
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			if err := answer(m.Kind == websocket.Text, m.Data); err != nil {
				return err
			}
			return c.Write(context.Background(), m.Kind, m.Data)
		},
		OnOpen: func(c *websocket.Conn) error { return hub.Join(c, lobby) },
	}
	s.Handler = func(ctx *sluice.RequestCtx) { _ = endpoint.Upgrade(ctx, nil) }
	if kind == accept {
		endpoint.OnOpen = nil
		s.Handler = func(ctx *sluice.RequestCtx) { _ = endpoint.Accept(ctx, s.loop) }
	}
	s.Logger = log.New(io.Discard, "", 0)
	return s, nil
}

// loop is what a connection of Accept does.
func (s *sluiceServer) loop(c *websocket.Conn) error {
	if err := s.hub.Join(c, lobby); err != nil {
		return err
	}
	ctx := context.Background() // Read returns at the end of the connection
	for {
		m, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if err := answer(m.Kind == websocket.Text, m.Data); err != nil {
			return err
		}
		if err := c.Write(ctx, m.Kind, m.Data); err != nil {
			return err
		}
	}
}

// Serve implements server. Another engine than the one that was asked for is an error.
func (s *sluiceServer) Serve(ln net.Listener) error {
	if info := s.EngineInfo(ln); info.Engine != s.Engine {
		return fmt.Errorf("engine %v was asked for, and %v would serve", s.Engine, info)
	}
	return s.Server.Serve(ln)
}

func (s *sluiceServer) broadcast(text []byte) (int, error) {
	return s.hub.Broadcast(lobby, websocket.Prepare(websocket.Text, text)), nil
}

// members are the connections of a peer.
type members[Conn comparable] struct {
	mu  sync.Mutex
	all map[Conn]struct{}
}

func (m *members[Conn]) join(c Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = make(map[Conn]struct{})
	}
	m.all[c] = struct{}{}
}

func (m *members[Conn]) leave(c Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, c)
}

// each calls send for every connection, as the examples of the peers do.
func (m *members[Conn]) each(send func(c Conn) error) (sent int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.all {
		if err := send(c); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// serveHTTP serves a peer's handler with net/http.
func serveHTTP(ln net.Listener, handler http.HandlerFunc) error {
	return (&http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}).Serve(ln)
}
