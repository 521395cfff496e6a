// Package room has groups of WebSocket connections by name, in one process or in several.
//
// A Hub has the rooms. Connections Join and Leave them; Broadcast sends a message to all
// members. A Backplane connects the hubs of several processes.
package room

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/process/recall"
	"github.com/sluicehttp/sluice/websocket"
)

// Options configure a Hub; all fields may be zero.
type Options struct {
	// Backplane connects the hubs of several processes; nil: the rooms are those of this
	// process. A Backplane belongs to one Hub.
	Backplane backplane.Backplane
	// MaxRooms is how many rooms may have members; 0: no limit but that of the
	// connections.
	MaxRooms int
	// History is how many messages the Hub keeps, of all rooms together, for members that
	// move to or from another process (websocket.Endpoint.Register): with it, they get each
	// message once. 10,000 is enough for a second of 10,000 messages. 0: none; a member that
	// moves misses what is broadcast meanwhile. With it, the hubs get the messages of all
	// rooms through the Backplane, not only of those in which they have members, and those of
	// the other hubs at the beginning. It must be 0 in all processes, or in none.
	History int
	// HistoryBytes bounds the memory of these messages, with the names of their rooms and
	// 200 bytes for each; 0: 16 MiB.
	HistoryBytes int
	// OnGap is called when messages of other processes may have been lost: of one room,
	// or with "" of any room. Members that cannot bear a gap should load their state
	// again. It must not block.
	OnGap func(room string)
	// OnError is called when the Backplane could not join, leave or publish. With
	// backplane.ErrTooLarge the message is not sent at all; with other errors of a Broadcast,
	// members in other processes miss it. It must not block.
	OnError func(room string, err error)
}

// A Hub has rooms by their names. Make it with New: the zero value panics. Its methods may be
// called by any number of goroutines.
type Hub struct {
	options Options
	history *history       // nil: none
	recall  *recall.Recall // nil: there is no history, or no Backplane

	mu    sync.RWMutex
	rooms map[string]*room
}

// A room is there while it has members. Its mutex is held while it gets its first member
// and loses its last one, so that calls of Backplane.Join and Leave alternate. It is taken
// before the Hub's.
type room struct {
	websocket.Group
	hub *Hub

	mu    sync.Mutex
	phase roomPhase
}

type roomPhase uint8

const (
	roomNew    roomPhase = iota // the Backplane has not joined it
	roomJoined                  // it is in Hub.rooms
	roomGone                    // it is not; another one may have its name
)

// ErrTooManyRooms is returned by Join when Options.MaxRooms rooms have members.
var ErrTooManyRooms = errors.New("sluice: room: too many rooms")

// ErrMissed is returned by Join for a connection of another process that has missed messages
// which are not in the history. It is a member; the program should send it the state of the
// room.
var ErrMissed = errors.New("sluice: room: the connection has moved and has missed messages")

// every is the room of the Backplane that hubs with a History join.
const every = "rooms"

// New returns a Hub without members. The error is that of the Backplane.
func New(o Options) (*Hub, error) {
	h := &Hub{options: o, rooms: map[string]*room{}}
	if o.History > 0 {
		h.history = newHistory(o.History, cmp.Or(o.HistoryBytes, 16<<20))
	}
	if b := o.Backplane; b != nil {
		if h.history != nil {
			h.recall = recall.New(recall.Options{Log: recalled{h}, Plane: b, Room: every, Run: h.history.sources[0].run, Most: h.history.most})
		}
		if err := b.Subscribe(receiver{h}); err != nil {
			return nil, err
		}
		if h.recall != nil {
			if err := h.recall.Begin(); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// plane returns the Backplane if rooms join and leave it; nil: they do not.
func (h *Hub) plane() backplane.Backplane {
	if h.history != nil {
		return nil
	}
	return h.options.Backplane
}

// Join makes c a member of a room. At its end it leaves all its rooms. The error is
// websocket.ErrClosed if c is closing or has ended, ErrTooManyRooms, or that of
// Backplane.Join; then c is no member.
//
// With a History, a connection that comes from another process gets the messages that it
// has missed, if Join is called in OnMoved, or in Endpoint.Serve. Join then may wait until
// messages have come that it has got in the other process, for up to a second.
// ErrMissed says that some are missing; then c is a member.
func (h *Hub) Join(c *websocket.Conn, name string) error {
	if h.history != nil {
		if text := c.TakeMark(name); text != "" {
			return h.joinMoved(c, name, text)
		}
	}
	return h.join(c, name)
}

// joinMoved is Join for a connection of another process, with the text of its position.
func (h *Hub) joinMoved(c *websocket.Conn, name, text string) error {
	p, ok := parsePosition(text)
	h.recall.Await(context.Background()) // for some seconds at most
	h.history.await(p)
	order := h.history.orderOf(name)
	order.Lock()
	defer order.Unlock()
	missed, isWhole := h.history.since(name, p)
	for _, m := range missed {
		if err := c.WritePrepared(m); errors.Is(err, websocket.ErrFull) {
			ok = false
		} else if err != nil {
			return err
		}
	}
	if err := h.join(c, name); err != nil {
		return err
	}
	if !ok || !isWhole {
		return ErrMissed
	}
	return nil
}

// join makes c a member of a room.
func (h *Hub) join(c *websocket.Conn, name string) error {
	for {
		r, err := h.get(name)
		if err != nil {
			return err
		}
		if isGone, err := r.join(c); !isGone {
			return err
		}
	}
}

// get returns the room called name, and makes it if it is not there.
func (h *Hub) get(name string) (*room, error) {
	if r := h.find(name); r != nil {
		return r, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.rooms[name]; r != nil {
		return r, nil
	}
	if h.options.MaxRooms > 0 && len(h.rooms) >= h.options.MaxRooms {
		return nil, ErrTooManyRooms
	}
	r := &room{hub: h}
	r.Name = name
	r.OnEmpty = r.emptied
	if h.history != nil {
		r.Mover = &h.history.mover
	}
	h.rooms[name] = r
	return r, nil
}

// find returns the room called name, nil if it has no members.
func (h *Hub) find(name string) *room {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.rooms[name]
}

// join adds c. The result isGone means that the Hub has forgotten the room meanwhile.
func (r *room) join(c *websocket.Conn) (isGone bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.phase {
	case roomGone:
		return true, nil
	case roomNew:
		if b := r.hub.plane(); b != nil {
			if err := b.Join(r.Name); err != nil {
				r.forgetLocked()
				return false, err
			}
		}
		r.phase = roomJoined
	}
	err = r.Add(c)
	r.endIfEmptyLocked()
	return false, err
}

// emptied is called when the last member has left.
func (r *room) emptied() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == roomJoined {
		r.endIfEmptyLocked()
	}
}

// endIfEmptyLocked leaves the Backplane's room after the last member; mu is held.
func (r *room) endIfEmptyLocked() {
	if r.Len() > 0 {
		return
	}
	if b := r.hub.plane(); b != nil {
		r.hub.failed(r.Name, b.Leave(r.Name))
	}
	r.forgetLocked()
}

// forgetLocked removes the room from its Hub; mu is held.
func (r *room) forgetLocked() {
	r.phase = roomGone
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.rooms, r.Name)
}

func (h *Hub) failed(name string, err error) {
	if err != nil && h.options.OnError != nil {
		h.options.OnError(name, err)
	}
}

// Leave ends the membership of c, and reports whether it was a member.
func (h *Hub) Leave(c *websocket.Conn, name string) bool {
	r := h.find(name)
	return r != nil && r.Remove(c)
}

// An Option changes a Broadcast.
type Option struct {
	except *websocket.Conn
}

// Except excludes one member, for example the one that has sent the message. With a History,
// a member that moves to another process meanwhile may get it there.
func Except(c *websocket.Conn) Option { return Option{except: c} }

// Broadcast sends p to the members of a room, in this process first, or with a History
// last, and in the others. It returns to how many members of this process it was sent, or waits to be sent;
// see websocket.Group.Broadcast. All members of a process see the messages of a process in
// one order; there is no order between processes. With a Backplane, a message that is too
// large for it is not sent at all.
func (h *Hub) Broadcast(name string, p *websocket.Prepared, options ...Option) (sent int) {
	var except *websocket.Conn
	for _, o := range options {
		except = o.except
	}
	if h.history != nil {
		return h.broadcastKept(name, p, except)
	}
	b, data := h.options.Backplane, []byte(nil)
	if b != nil {
		if data = encode(p, mark{}, ""); len(name) > backplane.MaxRoom || len(data) > backplane.MaxData {
			h.failed(name, backplane.ErrTooLarge)
			return 0
		}
	}
	sent = h.send(name, p, except)
	if b != nil {
		h.failed(name, b.Publish(name, data))
	}
	return sent
}

// broadcastKept is Broadcast with a History.
func (h *Hub) broadcastKept(name string, p *websocket.Prepared, except *websocket.Conn) (sent int) {
	b, size := h.options.Backplane, maxHead+len(name)+len(p.Key())+len(p.Data())
	if b != nil && (len(name) > backplane.MaxRoom || size > backplane.MaxData) {
		h.failed(name, backplane.ErrTooLarge)
		return 0
	}
	order := h.history.orderOf(name)
	order.Lock()
	h.history.publish.Lock()
	m, err := h.history.nextLocked(), error(nil)
	h.history.add(kept{name, m, p})
	if b != nil {
		err = b.Publish(every, encode(p, m, name))
	}
	h.history.publish.Unlock()
	sent = h.send(name, p, except)
	order.Unlock()
	h.failed(name, err)
	return sent
}

// send sends p to the members in this process.
func (h *Hub) send(name string, p *websocket.Prepared, except *websocket.Conn) (sent int) {
	if r := h.find(name); r != nil {
		return r.Broadcast(p, except)
	}
	return 0
}

// Len returns how many members a room has in this process.
func (h *Hub) Len(name string) int {
	if r := h.find(name); r != nil {
		return r.Len()
	}
	return 0
}

// Range calls f for every member of a room in this process until f returns false. f may
// use the Hub.
func (h *Hub) Range(name string, f func(c *websocket.Conn) bool) {
	if r := h.find(name); r != nil {
		r.Range(f)
	}
}

// Rooms returns how many rooms have members in this process.
func (h *Hub) Rooms() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.rooms)
}
