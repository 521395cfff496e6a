// Package mesh connects processes that publish to each other: each has a stream to each of
// the others.
//
// A process writes all frames for another one in one stream, so they arrive in order, and
// what a process had sent in part when it died ends with its stream. docs/adr/0022-streams-between-workers.md
// says why.
package mesh

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/backplane"
)

const (
	// writeInterval is the least time between the beginnings of two writes to a peer, so
	// that under load a system call takes many frames. With many peers it is longer, by
	// writeShare for each, up to longestInterval.
	writeInterval   = 4 * time.Millisecond
	writeShare      = 500 * time.Microsecond
	longestInterval = 10 * time.Millisecond
	// helloPatience bounds the wait for the hellos of peers that are stopped.
	helloPatience = time.Second
)

// ErrClosed is returned by Subscribe after Close.
var ErrClosed = errors.New("sluice: the process leaves the backplane")

// Interests are sets of numbers that stand for rooms: one set for each process, in memory
// that all of them see. What Add did is seen by all that Holds is called for after it.
type Interests interface {
	// Own returns the number of this process's set.
	Own() int
	// Interest returns the number of a room. Several rooms may have it.
	Interest(room string) int
	// Add and Remove change this process's set. A number is in it until it was removed as
	// often as it was added.
	Add(interest int)
	Remove(interest int)
	// Holds reports whether a number is in a set.
	Holds(set, interest int) bool
}

// Options say who a process is, for Start.
type Options struct {
	// Slot and Generation number the processes: while a process is replaced, two have the
	// same slot.
	Slot, Generation int
	// Interests is called when the peers are asked for. The result, or the function, may be
	// nil: then this process gets every message and sends every message to all.
	Interests func() Interests
	// Meet asks for the streams to the other processes that have called it, and returns
	// when take was called for all of them. Later take is called for each that comes.
	Meet func(take func(Conn)) error
	// Failed is called for streams that had to be closed. It must not block.
	Failed func(error)
}

type phase uint8

const (
	phaseAlone        phase = iota // before Start
	phaseUnsubscribed              // after it; nothing has subscribed
	phaseMeeting                   // the peers are being asked for
	phaseMet
	phaseClosed
)

// A Mesh has this process's planes and peers. The zero value is ready to use, and has no
// peers.
type Mesh struct {
	peers     atomic.Pointer[[]*peer] // never changed, but replaced
	interests Interests               // set before there are peers

	mu         sync.Mutex
	phase      phase
	options    Options
	planes     map[string]*plane // that have subscribed, by name
	meeting    chan struct{}     // closed at the end of phaseMeeting
	meetingErr error
}

// Plane returns the plane of that name, which is valid if it has 1 to 64 bytes and no NUL.
// It is connected with those of this name in the other processes.
func (m *Mesh) Plane(name string) backplane.Backplane {
	return &plane{mesh: m, name: name, rooms: map[string]string{}}
}

// Start makes the peers known, now or when the first plane gets a receiver. Call it once.
func (m *Mesh) Start(o Options) error {
	m.mu.Lock()
	m.phase, m.options = phaseUnsubscribed, o
	isNeeded := len(m.planes) > 0
	m.mu.Unlock()
	if isNeeded {
		return m.meet()
	}
	return nil
}

// subscribe gives a plane its receiver.
func (m *Mesh) subscribe(p *plane, r backplane.Receiver) error {
	m.mu.Lock()
	if m.phase == phaseClosed {
		m.mu.Unlock()
		return ErrClosed
	}
	if m.planes[p.name] != nil {
		m.mu.Unlock()
		return ErrSubscribed
	}
	if m.planes == nil {
		m.planes = map[string]*plane{}
	}
	m.planes[p.name] = p
	p.begin(r)
	p.count(m.interests)
	isAlone := m.phase == phaseAlone
	m.mu.Unlock()
	if isAlone {
		return nil
	}
	return m.meet()
}

// meet asks for the peers, and returns when they send to this process what is published
// from then on. It does so once.
func (m *Mesh) meet() error {
	m.mu.Lock()
	if m.phase != phaseUnsubscribed {
		meeting := m.meeting
		m.mu.Unlock()
		if meeting == nil {
			return ErrClosed
		}
		<-meeting
		return m.meetingErr
	}
	m.phase, m.meeting = phaseMeeting, make(chan struct{})
	if f := m.options.Interests; f != nil {
		m.interests = f()
		for _, p := range m.planes {
			p.count(m.interests)
		}
	}
	m.mu.Unlock()
	defer close(m.meeting)
	if m.meetingErr = m.options.Meet(m.add); m.meetingErr != nil {
		return m.meetingErr
	}
	m.awaitHellos()
	m.connected()
	return nil
}

// connected calls the functions of OnConnect, and returns when they have.
func (m *Mesh) connected() {
	m.mu.Lock()
	if m.phase == phaseMeeting {
		m.phase = phaseMet
	}
	var calls sync.WaitGroup
	for _, p := range m.planes {
		if p.connected != nil {
			calls.Go(p.connected)
		}
	}
	m.mu.Unlock()
	calls.Wait()
}

// await arranges that f is called when the peers are met. It returns true if they are.
func (m *Mesh) await(p *plane, f func()) (isMet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.connected = f
	return m.phase == phaseMet
}

// awaitHellos waits for the hellos of the peers. What those publish that have not said it in
// time may be missed. If none is of this process's slot, the predecessor has crashed, or has
// ended long ago.
func (m *Mesh) awaitHellos() {
	late := time.NewTimer(helloPatience)
	defer late.Stop()
	isSuccessor := m.options.Generation > 1
	isLate := false
	for _, p := range m.others() {
		if !isLate {
			select {
			case <-p.settled:
			case <-late.C:
				isLate = true
			}
		}
		select {
		case <-p.settled:
			isSuccessor = isSuccessor && !(p.isKnown && int(p.hello.slot) == m.options.Slot)
		default:
			go m.gapAfterHello(p)
		}
	}
	if isSuccessor {
		m.gapOfAny()
	}
}

func (m *Mesh) gapAfterHello(p *peer) {
	if <-p.settled; p.isKnown {
		m.gapOfAny()
	}
}

// others returns the peers.
func (m *Mesh) others() []*peer {
	if all := m.peers.Load(); all != nil {
		return *all
	}
	return nil
}

// interval returns the least time between two writes to a peer.
func (m *Mesh) interval() time.Duration {
	return min(max(writeInterval, time.Duration(len(m.others()))*writeShare), longestInterval)
}

// add begins to use a stream to a new peer.
func (m *Mesh) add(conn Conn) {
	p := newPeer(m, conn)
	own := hello{slot: uint32(m.options.Slot), generation: uint32(m.options.Generation), interests: -1}
	if m.interests != nil {
		own.interests = int32(m.interests.Own())
	}
	p.put(frameHello, "", "", appendHello(nil, own))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == phaseClosed {
		conn.Close()
		return
	}
	all := append(slices.Clone(m.others()), p)
	m.peers.Store(&all)
	go p.write()
	go p.read()
}

// forget removes a peer that has gone. If it did not say so, it may have published what did
// not arrive.
func (m *Mesh) forget(p *peer, isOrderly bool) {
	m.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(m.others()), func(o *peer) bool { return o == p })
	m.peers.Store(&others)
	isClosed := m.phase == phaseClosed
	m.mu.Unlock()
	close(p.gone)
	p.conn.Close()
	p.refuse()
	if !p.isKnown {
		close(p.settled)
	} else if !isOrderly && !isClosed {
		m.gapOfAny()
	}
}

// publish queues a message for the peers that may have joined its room.
func (m *Mesh) publish(plane, room string, data []byte) {
	others := m.others()
	if len(others) == 0 {
		return
	}
	interest := m.interestOf(room)
	for _, p := range others {
		if p.wants(interest) {
			p.put(frameMessage, plane, room, data)
		}
	}
}

// interestOf returns the number of a room.
func (m *Mesh) interestOf(room string) int {
	if m.interests == nil {
		return 0
	}
	return m.interests.Interest(room)
}

// find returns the plane of that name, nil if it has no receiver.
func (m *Mesh) find(name []byte) *plane {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.planes[string(name)]
}

// gapOfAny tells all planes that messages may be lost.
func (m *Mesh) gapOfAny() {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.planes))
	m.mu.Unlock()
	for _, p := range all {
		p.gapOfAny()
	}
}

// failed reports a stream that is closed because of err.
func (m *Mesh) failed(err error) {
	if f := m.options.Failed; f != nil {
		f(err)
	}
}

// Close sends what waits for the peers, for as long as ctx allows, and leaves them. From
// then on nothing is received, and what is published goes nowhere.
func (m *Mesh) Close(ctx context.Context) {
	m.mu.Lock()
	isFirst := m.phase != phaseClosed
	m.phase = phaseClosed
	m.mu.Unlock()
	if !isFirst {
		return
	}
	others := m.others()
	for _, p := range others {
		p.end()
	}
	for _, p := range others {
		select {
		case <-p.written:
		case <-ctx.Done():
		}
		p.conn.Close()
	}
}
