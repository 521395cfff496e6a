//go:build linux

package member

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/tcp"
	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/websocket"
)

// A client is a process that holds connections and sends on them. They are
// served by an engine: a client is a server that speaks first.
type client struct {
	*process
	server   *tcp.Server         // unless there are WebSockets
	endpoint *websocket.Endpoint // of WebSockets
	events   *eventReader        // of server-sent events
	request  []byte              // or the message that is one
	began    time.Time           // origin of all times

	// upgrades has an element for each connection whose server has not sent its SETTINGS,
	// or whose stream has not begun.
	upgrades chan struct{}

	mu         sync.Mutex
	peers      []*peer
	secrets    map[string]*secret    // of HTTPS: given to the engine, and not opened yet; by addresses
	publishers map[string]*publisher // of server-sent events, by address
	streams    int32                 // of server-sent events, for their topics
	drive      driver                // what a Run does; never nil

	audience audience

	turns  chan control.Turn
	broken func(error) // is called when no request can be sent any more

	opened, failed, lost atomic.Int64
	requests             atomic.Uint64
	settled              atomic.Bool
	firstError           atomic.Pointer[string]
}

// A peer is one connection. The tally's mutex guards its fields.
type peer struct {
	sender sender // does not change
	// intended is when the request should have been sent, since client.began.
	intended time.Duration
	isOut    bool
	heard    int64 // the last broadcast; guarded by the audience's mutex
}

// A sender sends from outside of a connection's callbacks. It is a *tcp.Sender, or
// a *messenger, a *streamer, a *trigger or a *secret.
type sender interface{ TrySend(message []byte) error }

var getRequest = []byte("GET / HTTP/1.1\r\nHost: lab\r\n\r\n")

func newClient(p *process) *client {
	c := &client{process: p, began: time.Now(), drive: resting{}, turns: make(chan control.Turn, turnsWaiting), broken: p.fail}
	c.request = make([]byte, messageSize)
	var handler tcp.Handler
	switch p.config.Scenario.Protocol {
	case scenario.TCP:
		handler = c.handleTCP
	case scenario.WebSocket:
		c.endpoint = c.newEndpoint()
		return c
	case scenario.HTTPS:
		c.secrets = make(map[string]*secret)
		c.request, handler = getRequest, c.handleHTTPS
	case scenario.HTTP2:
		handler = c.handleHTTP2
	case scenario.SSE:
		c.publishers, c.events = make(map[string]*publisher), newEventReader()
		handler = c.handleSSE
	default:
		c.request, handler = getRequest, c.handleHTTP
	}
	c.server = &tcp.Server{Handler: handler, OnOpen: c.open, OnClose: c.closed, Engine: tcp.EngineEpoll, Loops: p.config.Loops, MaxPending: maxPending}
	if p.config.Scenario.Client == scenario.GoroutineClient {
		c.server.Engine = tcp.EnginePerConn
	}
	return c
}

// start implements role.
func (c *client) start() error {
	return c.link.Send(control.Message{Ready: &control.Ready{}})
}

// receive implements role.
func (c *client) receive(m control.Message) {
	switch {
	case m.Connect != nil:
		go c.connect(*m.Connect)
	case m.Turn != nil:
		c.turns <- *m.Turn // as many as are let wait
	case m.Run != nil:
		go c.measure(*m.Run)
	}
}

// count implements role.
func (c *client) count(s *control.Stats) {
	s.Connections = int(c.opened.Load() - c.lost.Load())
	s.Failed, s.Lost = int(c.failed.Load()), int(c.lost.Load())
	s.Requests = c.requests.Load()
	s.Settled = c.settled.Load()
	c.audience.count(s)
	if text := c.firstError.Load(); text != nil {
		s.FirstError = *text
	}
}

// note keeps the first error.
func (c *client) note(err error) {
	text := err.Error()
	c.firstError.CompareAndSwap(nil, &text)
}

// open is called for each connection that was made.
func (c *client) open(conn *tcp.Conn) error {
	switch c.config.Scenario.Protocol {
	case scenario.HTTP2:
		return c.startHTTP2(conn)
	case scenario.SSE:
		return c.startStream(conn)
	case scenario.HTTPS:
		s := c.takeSecret(conn)
		s.Sender = conn.Sender()
		c.joins(conn, s)
		return nil
	}
	c.joins(conn, conn.Sender())
	return nil
}

// joins makes a connection one that is used.
func (c *client) joins(conn *tcp.Conn, s sender) {
	p := &peer{sender: s}
	conn.SetState(p)
	c.join(p)
}

// join adds a peer.
func (c *client) join(p *peer) {
	c.mu.Lock()
	c.peers = append(c.peers, p)
	c.mu.Unlock()
	c.opened.Add(1)
}

// closed is called when a connection has ended, which none should.
func (c *client) closed(conn *tcp.Conn, err error) {
	if err == nil {
		err = fmt.Errorf("the server has closed a connection")
	}
	switch state := conn.State().(type) {
	case *peer:
		c.ended(state, err)
	case *publisher:
		c.note(err)
		c.broken(err)
	default:
		c.note(err)
		c.failed.Add(1)
		<-c.upgrades
	}
}

// ended is called when the connection of a peer has ended.
func (c *client) ended(p *peer, err error) {
	c.note(err)
	c.lost.Add(1)
	if t, isStream := p.sender.(*trigger); isStream {
		t.isOver.Store(true)
	}
	c.driver().lost(p)
}

// now returns the time since began.
func (c *client) now() time.Duration { return time.Since(c.began) }

// handleTCP takes an answer of eight bytes.
func (c *client) handleTCP(conn *tcp.Conn, in []byte) (int, error) {
	if len(in) < messageSize {
		return 0, nil
	}
	return messageSize, c.answered(conn)
}

// handleHTTP takes an answer.
func (c *client) handleHTTP(conn *tcp.Conn, in []byte) (int, error) {
	size, err := responseSize(in)
	if err != nil || size == 0 || size > len(in) {
		return 0, err
	}
	return size, c.answered(conn)
}

// answered takes in that the answer has come, and sends what the driver wants
// to be sent on the same connection.
func (c *client) answered(conn *tcp.Conn) error {
	p, ok := conn.State().(*peer)
	if !ok {
		return fmt.Errorf("an answer has come before there was a request")
	}
	if !c.takes(p) {
		return nil
	}
	var err error
	switch s := p.sender.(type) {
	case *streamer:
		_, err = conn.Write(s.appendRequest(conn.AvailableBuffer()))
	case *trigger:
		err = s.TrySend(nil)
	default:
		_, err = conn.Write(c.request)
	}
	return err
}

// takes takes in that the answer of a peer has come, and reports whether the next request is to
// be sent on the same connection.
func (c *client) takes(p *peer) (again bool) {
	c.requests.Add(1)
	return c.driver().answered(p, c.now())
}

// driver returns the driver in use.
func (c *client) driver() driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drive
}
