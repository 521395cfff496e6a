package websocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// moveFarewell is what the client gets if the other process cannot take the connection over.
func moveFarewell() string {
	return string(ws.AppendFrame(nil, ws.OpClose, ws.AppendClose(nil, ws.CodeServiceRestart, "please connect again")))
}

// Register lets the connections of e move to other processes, and lets s take over those of
// an Endpoint with the same Name, as in rolling restarts with package prefork. It must be
// called before s serves. The error says that Name is empty, longer than 200 bytes, or that
// another Endpoint of s has it.
//
// A connection moves between two messages when nothing waits to be sent, no callback runs
// and no Ping waits; TLS connections, and those of EnginePerConn that a listener has
// wrapped, do not. Nor does one with a state but no StateCodec, in a Group without a name,
// in Groups if there is no OnMoved, or with a loop that is not Endpoint.Serve.
func (e *Endpoint) Register(s *sluice.Server) error {
	if e.Name == "" || len(e.Name) > 200 {
		return fmt.Errorf("sluice: websocket: Endpoint.Name %q is empty or too long", e.Name)
	}
	return upgrade.Register(s.Control(), e.settings())
}

// moved is what a connection takes along.
type moved struct {
	isPinged bool
	out, in  ws.DeflateSide
	window   string // what messages of the peer may refer to; it forgets ours
	protocol string
	rooms    []movedRooms
	hasState bool
	state    []byte
}

// appendMoved appends m to dst: three bytes, and texts and lists with their lengths.
func appendMoved(dst []byte, m moved) []byte {
	flags := byte(0)
	if m.isPinged {
		flags |= 1
	}
	if m.hasState {
		flags |= 2
	}
	dst = append(dst, flags, byte(m.out), byte(m.in))
	dst = upgrade.AppendText(upgrade.AppendText(dst, m.window), m.protocol)
	dst = binary.AppendUvarint(dst, uint64(len(m.rooms)))
	for _, rooms := range m.rooms {
		dst = binary.AppendUvarint(upgrade.AppendText(dst, rooms.mark), uint64(len(rooms.names)))
		for _, name := range rooms.names {
			dst = upgrade.AppendText(dst, name)
		}
	}
	return append(dst, m.state...)
}

// parseMoved is the reverse of appendMoved. Its result contains parts of in.
func parseMoved(in []byte) (m moved, ok bool) {
	if len(in) < 3 || in[0] > 3 || len(in) > maxMoved {
		return m, false
	}
	m.isPinged, m.hasState = in[0]&1 != 0, in[0]&2 != 0
	m.out, m.in = ws.DeflateSide(in[1]), ws.DeflateSide(in[2])
	if !m.out.IsValid() || !m.in.IsValid() || (m.out == 0) != (m.in == 0) {
		return m, false
	}
	if m.window, in, ok = upgrade.CutText(in[3:]); !ok || len(m.window) > receivedSize(m.in) || len(m.window) > 0 && !m.in.Keeps() {
		return m, false
	}
	if m.protocol, in, ok = upgrade.CutText(in); !ok {
		return m, false
	}
	count, in, ok := cutCount(in)
	for ; ok && count > 0; count-- {
		var rooms movedRooms
		rooms, in, ok = cutRooms(in)
		m.rooms = append(m.rooms, rooms)
	}
	m.state = in
	return m, ok && (m.hasState || len(in) == 0)
}

// cutRooms parses a movedRooms.
func cutRooms(in []byte) (r movedRooms, rest []byte, ok bool) {
	if r.mark, in, ok = upgrade.CutText(in); !ok {
		return r, in, false
	}
	count, in, ok := cutCount(in)
	for ; ok && count > 0; count-- {
		var name string
		name, in, ok = upgrade.CutText(in)
		r.names = append(r.names, name)
	}
	return r, in, ok
}

// cutCount parses the length of a list, each member of which takes a byte or more.
func cutCount(in []byte) (count uint64, rest []byte, ok bool) {
	count, n := binary.Uvarint(in)
	if n <= 0 || count > uint64(len(in)) {
		return 0, in, false
	}
	return count, in[n:], true
}

// names returns the names of all Groups.
func (m *moved) names() (all []string) {
	for _, rooms := range m.rooms {
		all = append(all, rooms.names...)
	}
	return all
}

// setMoved stores what TakeMark takes of a connection whose OnMoved is called; nil: nothing.
func (h *host) setMoved(c *Conn, rooms []movedRooms) {
	h.movedMu.Lock()
	defer h.movedMu.Unlock()
	switch {
	case rooms == nil:
		delete(h.moved, c)
		return
	case h.moved == nil:
		h.moved = map[*Conn][]movedRooms{}
	}
	h.moved[c] = rooms
}

// TakeMark is for OnMoved and for Endpoint.Serve: it returns what the Mover of the Group
// with this name said when c left the other process; once. "" means nothing.
func (c *Conn) TakeMark(group string) string {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.guarded == nil {
		return ""
	}
	var all []movedRooms
	if c.guarded.loopLocked() != nil {
		if r := c.guarded.calls; r != nil {
			all = r.moved
		}
	} else {
		c.host.movedMu.Lock()
		defer c.host.movedMu.Unlock()
		all = c.host.moved[c]
	}
	for i := range all {
		if at := slices.Index(all[i].names, group); at >= 0 {
			all[i].names = slices.Delete(all[i].names, at, at+1)
			return all[i].mark
		}
	}
	return ""
}

// Pack implements engine.Packer.
func (s *session) Pack(dst []byte) (state []byte, ok bool) {
	c, m := s.conn, moved{isPinged: s.awaits == awaitsPong, protocol: s.conn.Protocol(), out: s.conn.out, in: s.conn.in}
	c.lock().Lock()
	s.attachLocked()
	ok = s.mayMoveLocked()
	groups := c.guarded.groupsLocked()
	value := c.guarded.value
	if w := c.windowsLocked(); w != nil {
		m.window = string(w.received)
	}
	c.lock().Unlock()
	if !ok {
		if s.stays {
			s.stay()
		}
		return dst, false
	}
	if value != nil {
		m.hasState = true
		m.state, ok = s.encode(value)
	}
	if !ok || slices.ContainsFunc(groups, hasNoName) || len(groups) > 0 && s.host.Endpoint.OnMoved == nil {
		s.stay()
		return dst, false
	}
	var release func()
	if m.rooms, release, ok = hold(groups); !ok {
		return dst, false
	}
	defer release()
	before := len(dst)
	dst = appendMoved(upgrade.AppendState(dst, s.host.Name(), moveFarewell()), m)
	if len(dst)-before > maxMoved {
		s.stay()
		return dst[:before], false
	}
	c.lock().Lock()
	defer c.lock().Unlock()
	if !s.mayMoveLocked() { // another goroutine has written meanwhile
		return dst[:before], false
	}
	c.phase, s.err = phaseMoved, ErrMoved
	c.guarded.makeRoomLocked()
	return dst, true
}

// stay makes the connection one that never moves. If another process replaces this one, it
// ends at its time.
func (s *session) stay() {
	s.stays = true
	s.arm()
}

// mayMoveLocked reports whether the connection is at a point where it can move.
func (s *session) mayMoveLocked() bool {
	m := s.conn.guarded
	if s.stays || !s.reader.IsBetween() || s.conn.phase != phaseOpen || m.pending != nil || s.run != notRunning {
		return false
	}
	l, r := m.loopLocked(), m.calls
	if l != nil && l.kind != serveLoop {
		s.stays = true
		return false
	}
	return (r == nil || len(r.pings) == 0) && (l == nil || l.mayMoveLocked())
}

func hasNoName(g *Group) bool { return g.Name == "" }

// hold returns what a connection takes along of its Groups, and keeps their messages from
// it until release is called. ok is false if one of them is sending.
func hold(groups []*Group) (all []movedRooms, release func(), ok bool) {
	var movers []*Mover
	for _, g := range groups {
		at := slices.Index(movers, g.Mover)
		if at < 0 {
			at = len(movers)
			movers, all = append(movers, g.Mover), append(all, movedRooms{})
		}
		all[at].names = append(all[at].names, g.Name)
	}
	var held []func()
	release = func() {
		for _, f := range held {
			f()
		}
	}
	for i, mover := range movers {
		if mover == nil {
			continue
		}
		mark, free, ok := mover.Hold(all[i].names)
		if !ok {
			release()
			return nil, nil, false
		}
		all[i].mark, held = mark, append(held, free)
	}
	return all, release, true
}

// encode calls the StateCodec.
func (s *session) encode(state any) (p []byte, ok bool) {
	codec := s.host.Endpoint.State
	if codec == nil {
		return nil, false
	}
	defer func() {
		if v := recover(); v != nil {
			s.host.server.Printf("panic in Encode of a WebSocket's state: %v", v)
			p, ok = nil, false
		}
	}()
	p, err := codec.Encode(state)
	return p, err == nil && len(p) <= maxMovedState
}

// decode calls the StateCodec.
func (h *host) decode(m moved) (state any, err error) {
	switch codec := h.Endpoint.State; {
	case !m.hasState:
		return nil, nil
	case codec == nil:
		return nil, errors.New("the Endpoint has no StateCodec")
	default:
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		return codec.Decode(m.state)
	}
}

// Unpack implements upgrade.Host.
func (h *host) Unpack(conn engine.Conn, state []byte) engine.Protocol {
	m, ok := parseMoved(state)
	if !ok {
		return h.refuseMoved(errors.New("its state is damaged"))
	}
	o := opening{out: m.out, in: m.in, window: m.window}
	if h.Endpoint.Serve != nil {
		o.loop, o.serve = serveLoop, h.Endpoint.Serve
	}
	if m.protocol != "" {
		if o.protocol = h.protocolOf(m.protocol); o.protocol == 0 {
			return h.refuseMoved(fmt.Errorf("the subprotocol %q is not spoken", m.protocol))
		}
	}
	var err error
	if o.state, err = h.decode(m); err != nil {
		return h.refuseMoved(err)
	}
	s := h.begin(conn, o)
	s.stays = h.server.Closing() != upgrade.CloseNot
	if m.isPinged {
		s.awaits = awaitsPong
	}
	s.begin(nil, math.MaxInt, false)
	s.isOpening = true
	switch f := h.Endpoint.OnMoved; {
	case o.loop == serveLoop:
		if len(m.rooms) > 0 { // no other goroutine has the Conn yet
			s.conn.guarded.ensureCallsLocked().moved = m.rooms
		}
		go s.conn.serve(o.serve)
	case f != nil:
		names := m.names() // TakeMark changes m
		h.setMoved(s.conn, m.rooms)
		s.call(func(c *Conn) error {
			defer h.setMoved(c, nil)
			return restarted(f(c, names))
		})
	}
	s.arm()
	s.leaveToOutbox()
	return s
}

// restarted makes the error of OnMoved that of a restart, unless it is a *CloseError.
func restarted(err error) error {
	var wanted *CloseError
	if err == nil || errors.As(err, &wanted) {
		return err
	}
	return &CloseError{Code: CodeServiceRestart, Reason: "please connect again", Cause: err}
}

// refuseMoved makes the server close a connection that another process has handed over.
func (h *host) refuseMoved(why error) engine.Protocol {
	h.server.Printf("a WebSocket of another process is closed: %v", why)
	return nil
}

// mayMoveLocked reports whether the connection may move now: the function waits in Read.
func (l *loop) mayMoveLocked() bool { return l.reading == readAsks && !l.isDone }
