package proxy

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// A spliceFamily is the upgrade.Family of all splices. They do not move to other processes.
type spliceFamily struct{}

// NewHost implements upgrade.Family.
func (spliceFamily) NewHost(s upgrade.Server) upgrade.Host { return &spliceHost{server: s} }

// Name implements upgrade.Family.
func (spliceFamily) Name() string { return "" }

// A spliceHost has the splices whose clients are on one engine of a server. It is also the
// Acceptor of their upstreams' connections.
type spliceHost struct {
	server  upgrade.Server
	dialled choose.Shared // the engine of the upstreams' connections

	mu      sync.Mutex
	splices []*splice // by index; nil: vacant
	vacant  []uint32
}

var (
	_ upgrade.Host = (*spliceHost)(nil)

	_ engine.Hooker   = (*upstreamEnds)(nil)
	_ engine.Unpacker = (*upstreamEnds)(nil)
	_ engine.Waker    = (*upstreamEnds)(nil)
)

// An opening is what a splice begins with.
type opening struct {
	upstream *upstream
	conn     net.Conn   // to upstream
	early    []byte     // what has come from there, to send to the client verbatim
	rest     []byte     // what comes next from there
	events   *eventBody // nil: it is a tunnel
}

// open begins a splice of c and an upstream's connection; see upgrade.Takeover.
func (h *spliceHost) open(c engine.Conn, o opening, out []byte) (engine.Protocol, []byte) {
	e := h.dialled.Hold()
	defer h.dialled.Release() // then the engine has counted the connection
	s := &splice{host: h, engine: e, upstream: o.upstream, events: o.events, usedAt: clock.Nanos()}
	h.add(s)
	if o.events == nil {
		o.upstream.tunnels.Add(1)
	}
	x := acquireSpliceSession(s, clientSide, c)
	s.opened(clientSide, c.Target())
	c.SetWriteTimeout(o.upstream.options.Timeout)
	x.arm()
	parcel := engine.Parcel{State: binary.LittleEndian.AppendUint32(nil, s.index), Leftover: o.rest}
	if e.AdoptConn(o.conn, parcel, (*upstreamEnds)(h)) != nil {
		s.closed(upstreamSide)
	}
	return x, append(out, o.early...)
}

// add gives s its index.
func (h *spliceHost) add(s *splice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.vacant); n > 0 {
		s.index = h.vacant[n-1]
		h.vacant = h.vacant[:n-1]
		h.splices[s.index] = s
		return
	}
	s.index = uint32(len(h.splices))
	h.splices = append(h.splices, s)
}

// remove frees the index of s.
func (h *spliceHost) remove(s *splice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.splices[s.index] = nil
	h.vacant = append(h.vacant, s.index)
}

func (h *spliceHost) at(index uint32) *splice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.splices[index]
}

// memo returns what an engine keeps of an end that sleeps.
func (h *spliceHost) memo(index uint32, at side) engine.Memo {
	if at == clientSide {
		return h.server.Memo(0, uint64(index), 0)
	}
	return engine.Memo{ID: uint64(index)}
}

// Wake implements upgrade.Host.
func (h *spliceHost) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	index, _ := h.server.Served(m)
	return acquireSpliceSession(h.at(uint32(index)), clientSide, c)
}

// Unpack implements upgrade.Host; splices do not move.
func (h *spliceHost) Unpack(engine.Conn, []byte) engine.Protocol { return nil }

// upstreamEnds is a spliceHost as the Acceptor of connections to upstreams.
type upstreamEnds spliceHost

// Unpack begins the upstream's end of the splice that state names; see engine.Unpacker.
func (h *upstreamEnds) Unpack(c engine.Conn, state []byte) (engine.Protocol, []byte) {
	s := (*spliceHost)(h).at(binary.LittleEndian.Uint32(state))
	if !s.opened(upstreamSide, c.Target()) {
		s.closed(upstreamSide)
		return nil, nil
	}
	c.SetWriteTimeout(s.upstream.options.Timeout)
	return acquireSpliceSession(s, upstreamSide, c), nil
}

// Wake implements engine.Waker.
func (h *upstreamEnds) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	return acquireSpliceSession((*spliceHost)(h).at(uint32(m.ID)), upstreamSide, c)
}

// Open implements engine.Acceptor; all connections have a state.
func (h *upstreamEnds) Open(engine.Conn) (engine.Protocol, []byte) { return nil, nil }

// Hooks implements engine.Hooker: the engine exists while it has connections.
func (h *upstreamEnds) Hooks() engine.Hooks {
	return engine.Hooks{Arrived: func() { h.dialled.Hold() }, Departed: h.dialled.Release}
}

// Admit implements engine.Acceptor.
func (h *upstreamEnds) Admit(net.Conn) (ok bool, refusal []byte) { return true, nil }

// Release implements engine.Acceptor.
func (h *upstreamEnds) Release(net.Conn) {}

// AcceptError implements engine.Acceptor; there are no listeners.
func (h *upstreamEnds) AcceptError(error) {}
