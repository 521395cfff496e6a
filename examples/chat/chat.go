package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

// What a chat holds at most: kept messages of each room, and bytes of a message and of the
// names of a room and of a member.
const (
	maxRooms   = 1000
	kept       = 50
	maxMessage = 1 << 10
	maxName    = 32
	// maxPending has room for all kept messages, of which JSON makes six times as much at
	// most: a new member gets them at once.
	maxPending = kept * (6*(maxMessage+maxName) + 128)
)

// An event is what members get, as JSON.
type event struct {
	Kind    string    `json:"kind"` // "said", "came" or "left"
	Name    string    `json:"name"` // whose event it is
	Text    string    `json:"text,omitempty"`
	At      time.Time `json:"at"`
	Present []string  `json:"present,omitempty"` // who is in the room, after "came" and "left"
}

// A chatRoom is there while it has members in this process. Its mutex gives all of them the
// same order of events, history included.
type chatRoom struct {
	hub  *room.Hub
	name string

	mu      sync.Mutex
	history []*websocket.Prepared // the latest of kind "said", oldest first
	names   []string              // of the members, sorted; one may be there twice
	isGone  bool                  // it had no members, and a new one may have its name
}

// A member is the state of a connection.
type member struct {
	chatRoom *chatRoom // set when the connection is open
	room     string
	name     string
}

// A codec carries members to other processes.
type codec struct{}

func (codec) Encode(state any) ([]byte, error) {
	m := state.(*member)
	return json.Marshal([2]string{m.room, m.name})
}

func (codec) Decode(p []byte) (any, error) {
	var names [2]string
	err := json.Unmarshal(p, &names)
	return &member{room: names[0], name: names[1]}, err
}

type chat struct {
	endpoint websocket.Endpoint
	hub      *room.Hub // sends to the members of a room in all processes

	mu    sync.Mutex
	rooms map[string]*chatRoom
}

func newChat(hub *room.Hub) *chat {
	c := &chat{hub: hub, rooms: map[string]*chatRoom{}}
	c.endpoint = websocket.Endpoint{
		Name:       "chat",
		State:      codec{},
		ReadLimit:  maxMessage,
		MaxPending: maxPending,
		OnOpen:     c.enter,
		OnMessage:  c.say,
		OnClose:    c.leave,
		OnMoved:    func(conn *websocket.Conn, _ []string) error { return c.add(conn, moved) },
	}
	return c
}

// handle answers with the page, the names of the rooms, or a WebSocket for /chat/ROOM?name=NAME.
func (c *chat) handle(ctx *sluice.RequestCtx) {
	path := string(ctx.Path())
	room, isRoom := strings.CutPrefix(path, "/chat/")
	name := string(ctx.QueryArgs().Peek("name"))
	switch {
	case path == "/":
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBody(page)
	case path == "/rooms":
		ctx.SetBodyString(strings.Join(c.names(), "\n") + "\n")
	case !isRoom:
		ctx.NotFound()
	case !isName(room) || !isName(name):
		ctx.Error("a room and a name need 1 to 32 bytes", sluice.StatusBadRequest)
	default:
		_ = c.endpoint.Upgrade(ctx, &member{room: room, name: name}) // a refusal is answered
	}
}

func isName(s string) bool { return s != "" && len(s) <= maxName && utf8.ValidString(s) }

// names returns the names of the rooms.
func (c *chat) names() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.rooms {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// An arrival says where a member comes from.
type arrival uint8

const (
	came  arrival = iota // it is new
	moved                // from another process
)

// enter gives a new member the history of its room, and tells the others.
func (c *chat) enter(conn *websocket.Conn) error { return c.add(conn, came) }

func (c *chat) add(conn *websocket.Conn, how arrival) error {
	m := conn.State().(*member)
	for {
		r, err := c.room(m.room)
		if err != nil {
			return err
		}
		if isGone, err := r.add(conn, m, how); !isGone {
			return err
		}
	}
}

// room returns a room, and makes it if it is not there.
func (c *chat) room(name string) (*chatRoom, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[name]
	if r == nil {
		if len(c.rooms) >= maxRooms {
			return nil, &websocket.CloseError{Code: websocket.CodeTryAgain, Reason: "too many rooms"}
		}
		r = &chatRoom{hub: c.hub, name: name}
		c.rooms[name] = r
	}
	return r, nil
}

func (r *chatRoom) add(conn *websocket.Conn, m *member, how arrival) (isGone bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isGone {
		return true, nil
	}
	m.chatRoom = r
	at, _ := slices.BinarySearch(r.names, m.name)
	r.names = slices.Insert(r.names, at, m.name)
	if how == moved {
		return false, r.hub.Join(conn, r.name)
	}
	for _, p := range r.history {
		if err := conn.WritePrepared(p); err != nil {
			return false, err // OnClose follows
		}
	}
	if err := r.hub.Join(conn, r.name); err != nil {
		return false, err
	}
	r.tell(event{Kind: "came", Name: m.name, Present: r.names})
	return false, nil
}

// say sends a message to all members, its author included.
func (c *chat) say(conn *websocket.Conn, message websocket.Message) error {
	m := conn.State().(*member)
	if message.Kind != websocket.Text {
		return &websocket.CloseError{Code: websocket.CodeUnsupported, Reason: "text only"}
	}
	r := m.chatRoom
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.tell(event{Kind: "said", Name: m.name, Text: string(message.Data)})
	if len(r.history) == kept {
		r.history = slices.Delete(r.history, 0, 1)
	}
	r.history = append(r.history, p)
	return nil
}

// tell sends an event to all members; mu is held. It never waits.
func (r *chatRoom) tell(e event) *websocket.Prepared {
	e.At = time.Now().UTC()
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // an event can be encoded
	}
	p := websocket.Prepare(websocket.Text, text)
	r.hub.Broadcast(r.name, p)
	return p
}

// leave tells the others that a member has gone. The last one takes the room along.
func (c *chat) leave(conn *websocket.Conn, _ error) {
	m := conn.State().(*member)
	r := m.chatRoom
	if r == nil {
		return // it did not enter
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hub.Leave(conn, r.name)
	if at, found := slices.BinarySearch(r.names, m.name); found {
		r.names = slices.Delete(r.names, at, at+1)
	}
	if len(r.names) > 0 {
		r.tell(event{Kind: "left", Name: m.name, Present: r.names})
		return
	}
	r.isGone = true
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rooms, r.name)
}
