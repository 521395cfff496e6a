package mesh

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"github.com/sluicehttp/sluice/backplane"
)

// maxPlane is how many bytes the name of a plane can have.
const maxPlane = 64

// What Subscribe returns.
var (
	// ErrName: the name of the plane is not valid.
	ErrName = errors.New("sluice: the name of a backplane has 1 to 64 bytes, and no NUL")
	// ErrSubscribed: another plane of this process has this name and a receiver.
	ErrSubscribed = errors.New("sluice: the process has subscribed to a backplane of this name")
)

// A plane is a backplane.Connector.
type plane struct {
	mesh *Mesh
	name string

	mu        sync.RWMutex
	receiver  backplane.Receiver
	rooms     map[string]string // joined; each name is its own value
	interests Interests         // in which the rooms are; nil: not yet, or none

	// delivering is held while the receiver is called, and while nothing else is.
	delivering sync.Mutex

	connected func() // see OnConnect; the mesh's lock guards it
}

var _ backplane.Connector = (*plane)(nil)

// Subscribe implements backplane.Backplane.
func (p *plane) Subscribe(r backplane.Receiver) error {
	if p.name == "" || len(p.name) > maxPlane || strings.IndexByte(p.name, 0) >= 0 {
		return ErrName
	}
	return p.mesh.subscribe(p, r)
}

// begin sets the receiver.
func (p *plane) begin(r backplane.Receiver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.receiver = r
}

// Join implements backplane.Backplane.
func (p *plane) Join(room string) error {
	if len(room) > backplane.MaxRoom {
		return backplane.ErrTooLarge
	}
	room = strings.Clone(room)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, isJoined := p.rooms[room]; isJoined {
		return nil
	}
	p.rooms[room] = room
	if i := p.interests; i != nil {
		i.Add(i.Interest(room))
	}
	return nil
}

// Leave implements backplane.Backplane.
func (p *plane) Leave(room string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, isJoined := p.rooms[room]; isJoined {
		delete(p.rooms, room)
		if i := p.interests; i != nil {
			i.Remove(i.Interest(room))
		}
	}
	return nil
}

// OnConnect implements backplane.Connector.
func (p *plane) OnConnect(f func()) {
	if p.mesh.await(p, f) {
		go f()
	}
}

// Others implements backplane.Connector.
func (p *plane) Others(room string) (count int) {
	interest := p.mesh.interestOf(room)
	for _, o := range p.mesh.others() {
		if o.wants(interest) {
			count++
		}
	}
	return count
}

// count adds the rooms to i, now and from now on; nil: it does nothing.
func (p *plane) count(i Interests) {
	if i == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interests = i
	for room := range p.rooms {
		i.Add(i.Interest(room))
	}
}

// Publish implements backplane.Backplane.
func (p *plane) Publish(room string, data []byte) error {
	if len(room) > backplane.MaxRoom || len(data) > backplane.MaxData {
		return backplane.ErrTooLarge
	}
	p.mesh.publish(p.name, room, data)
	return nil
}

// find returns the receiver, and the name of a room that has been joined.
func (p *plane) find(room []byte) (r backplane.Receiver, name string, isJoined bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	name, isJoined = p.rooms[string(room)]
	return p.receiver, name, isJoined && p.receiver != nil
}

// received passes a message on.
func (p *plane) received(room, data []byte) {
	if r, name, isJoined := p.find(room); isJoined {
		p.delivering.Lock()
		defer p.delivering.Unlock()
		r.Received(name, data)
	}
}

// gap tells of lost messages of a room.
func (p *plane) gap(room []byte) {
	if r, name, isJoined := p.find(room); isJoined {
		p.delivering.Lock()
		defer p.delivering.Unlock()
		r.Gap(name)
	}
}

// gapOfAny tells that messages of any room may be lost.
func (p *plane) gapOfAny() {
	r, _, _ := p.find(nil)
	if r == nil {
		return
	}
	p.delivering.Lock()
	defer p.delivering.Unlock()
	r.Gap("")
}

// cutTopic splits a topic.
func cutTopic(topic []byte) (plane, room []byte) {
	plane, room, _ = bytes.Cut(topic, []byte{0})
	return plane, room
}
