package websocket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// dialReadLimit is the ReadLimit of DialOptions without an Endpoint.
const dialReadLimit = 1 << 20

// dialed has the connections of Dial. They share one engine, because a loop for each
// program part that dials would cost more than it gives.
var dialed = dialedConns{defaults: Endpoint{ReadLimit: dialReadLimit}, hosts: map[*settings]*dialHost{}}

type dialedConns struct {
	defaults Endpoint // of DialOptions without one

	mu     sync.Mutex
	engine choose.Shared           // held once for each dialHost.open
	hosts  map[*settings]*dialHost // those that have connections
}

// adopt gives a connection whose handshake is done to the engine.
func (d *dialedConns) adopt(ctx context.Context, conn net.Conn, opened dialedConn) (*Conn, error) {
	h := d.hold(opened.set)
	opened.opening.protocol = opened.set.protocolOf(opened.protocol)
	c, err := h.begin(ctx, conn, opened)
	d.release(h) // the engine has counted it, or it has failed
	return c, err
}

// hold returns the host of set, and keeps the engine until release.
func (d *dialedConns) hold(set *settings) *dialHost {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.engine.Hold()
	h := d.hosts[set]
	if h == nil {
		h = &dialHost{all: d, pending: map[uint64]*pendingDial{}}
		h.host = newHost(set, &dialServer{upgrade.Place{Engine: e}})
		h.host.isClient = true
		d.hosts[set] = h
	}
	h.open++
	return h
}

// count counts a connection of h, which is held.
func (d *dialedConns) count(h *dialHost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.Hold()
	h.open++
}

// release forgets h after its last connection, and ends the engine after the last of all.
func (d *dialedConns) release(h *dialHost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.open--; h.open == 0 && d.hosts[h.settings] == h {
		delete(d.hosts, h.settings)
	}
	d.engine.Release()
}

// A dialHost has the connections of Dial with one Endpoint. It is their Acceptor.
type dialHost struct {
	*host
	all  *dialedConns
	open int // all.mu guards it

	mu      sync.Mutex
	pending map[uint64]*pendingDial // by the State of their Parcel
	last    uint64
}

// A pendingDial waits for the engine.
type pendingDial struct {
	opening opening
	conn    chan *Conn
}

var (
	_ engine.Hooker   = (*dialHost)(nil)
	_ engine.Unpacker = (*dialHost)(nil)
	_ engine.Waker    = (*dialHost)(nil)
)

// begin has the engine adopt conn, and returns its Conn.
func (h *dialHost) begin(ctx context.Context, conn net.Conn, opened dialedConn) (*Conn, error) {
	p := &pendingDial{opening: opened.opening, conn: make(chan *Conn, 1)}
	h.mu.Lock()
	h.last++
	id := h.last
	h.pending[id] = p
	h.mu.Unlock()
	_ = conn.SetDeadline(time.Time{})
	parcel := engine.Parcel{Leftover: opened.leftover, State: binary.LittleEndian.AppendUint64(nil, id)}
	if err := h.server.(*dialServer).Engine.AdoptConn(conn, parcel, h); err != nil {
		h.take(id)
		return nil, err
	}
	select {
	case c := <-p.conn:
		return c, nil
	case <-ctx.Done():
	}
	if h.take(id) != nil {
		return nil, context.Cause(ctx)
	}
	return <-p.conn, nil // OnOpen is running
}

// take returns the pendingDial with an id, once; then nil.
func (h *dialHost) take(id uint64) *pendingDial {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pending[id]
	delete(h.pending, id)
	return p
}

// Unpack implements engine.Unpacker.
func (h *dialHost) Unpack(conn engine.Conn, state []byte) (engine.Protocol, []byte) {
	id := binary.LittleEndian.Uint64(state)
	p := h.take(id)
	if p == nil {
		return nil, nil // Dial has given up
	}
	s := h.host.begin(conn, p.opening)
	c := s.conn
	defer func() { p.conn <- c }() // also after Goexit in OnOpen
	s.callOpen(nil, nil)
	s.leaveToOutbox()
	return s, nil
}

// Open implements engine.Acceptor; all connections have a state.
func (h *dialHost) Open(engine.Conn) (engine.Protocol, []byte) { return nil, nil }

// Hooks implements engine.Hooker. AdoptConn calls Arrived itself; it calls Admit later, or,
// for a connection that ends before, not at all.
func (h *dialHost) Hooks() engine.Hooks {
	return engine.Hooks{Arrived: func() { h.all.count(h) }, Departed: func() { h.all.release(h) }}
}

// Admit implements engine.Acceptor.
func (h *dialHost) Admit(net.Conn) (ok bool, refusal []byte) { return true, nil }

// Release implements engine.Acceptor; see Hooks.
func (h *dialHost) Release(net.Conn) {}

// AcceptError implements engine.Acceptor; there are no listeners.
func (h *dialHost) AcceptError(error) {}

// A dialServer is the upgrade.Server of connections that no Server has.
type dialServer struct{ upgrade.Place }

// Closing implements upgrade.Server.
func (*dialServer) Closing() upgrade.Closing { return upgrade.CloseNot }

// Count implements upgrade.Server.
func (*dialServer) Count(read, written int) {}

// Printf implements upgrade.Server.
func (*dialServer) Printf(format string, args ...any) { log.Printf(format, args...) }

// A dialedConn is what a handshake has found out.
type dialedConn struct {
	set      *settings
	opening  opening
	protocol string
	leftover []byte // what came after the answer
}

// errNoSwitch is why an answer without a WebSocket is refused.
var errNoSwitch = errors.New("it does not switch to WebSocket")

// accept checks the answer (RFC 6455 section 4.1).
func (d *dialedConn) accept(h *sluice.ResponseHeader, key []byte) error {
	if h.StatusCode() != sluice.StatusSwitchingProtocols {
		return errNoSwitch
	}
	if !hasToken(values(h, sluice.HeaderConnection), "upgrade") || !hasToken(values(h, sluice.HeaderUpgrade), ws.Token) {
		return errors.New("it does not upgrade to WebSocket")
	}
	if accepts := values(h, ws.FieldAccept); len(accepts) != 1 || string(accepts[0]) != string(ws.AppendAccept(nil, key)) {
		return errors.New("its " + ws.FieldAccept + " is wrong")
	}
	return d.agree(h)
}

// agree checks what the server has chosen.
func (d *dialedConn) agree(h *sluice.ResponseHeader) error {
	if chosen := values(h, ws.FieldProtocol); len(chosen) > 0 {
		d.protocol = string(chosen[0])
		if len(chosen) > 1 || !slices.Contains(d.set.Endpoint.Protocols, d.protocol) {
			return fmt.Errorf("the subprotocol %q was not offered", d.protocol)
		}
	}
	extensions := joined(values(h, ws.FieldExtensions))
	if d.set.Endpoint.Compression == CompressionOff {
		if len(extensions) > 0 {
			return errors.New("no extension was offered")
		}
		return nil
	}
	deflate, isOn, ok := d.set.Endpoint.deflates().ParseAnswer(extensions)
	if !ok {
		return errors.New("its extension was not offered")
	}
	if isOn {
		d.opening.out, d.opening.in = deflate.Client(), deflate.Server()
	}
	return nil
}

// joined returns the values of a field that is a list.
func joined(values [][]byte) (list []byte) {
	for i, v := range values {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = append(list, v...)
	}
	return list
}
