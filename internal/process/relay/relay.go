// Package relay is what backplanes over brokers have in common: bounded queues between the
// hub and the broker's client, so that neither waits for the other.
package relay

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/sluicehttp/sluice/backplane"
)

// A Message is what travels. Its Data begins with the ID of the process that published it.
type Message struct {
	Room string
	Data []byte
}

// A Link is the way to a broker. A module implements it over the client of its broker. One
// goroutine of a Relay calls it; its methods may wait for the network.
type Link interface {
	// Follow joins rooms and leaves others. It remembers them, and joins them again when
	// the connection to the broker is a new one.
	Follow(join, leave []string) error
	// Publish sends messages in this order. Those that cannot be sent are lost.
	Publish(batch []Message) error
	// Close ends the other calls and what the Link has started. Another goroutine calls it.
	Close()
}

// Overhead is how many bytes the Data of a Message is longer than what is published.
const Overhead = 8

const (
	defaultPending = 16 << 20
	batchBytes     = 1 << 20
)

// Options configure a Relay; all fields may be zero.
type Options struct {
	Package    string          // begins the text of errors
	MaxPending int             // bytes of each queue; 0: 16 MiB
	OnError    func(err error) // errors of the Link
}

// A Relay is a backplane.Backplane over a Link. Join, Leave and Publish take effect on one
// goroutine, and the Receiver is called on another. Close ends both.
type Relay struct {
	link    Link
	name    string
	onError func(err error)
	id      [Overhead]byte

	out, in queue
	toSend  chan struct{} // something is in out or changes; capacity 1
	toHand  chan struct{} // something is in in; capacity 1
	closed  chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	phase   phase
	changes map[string]bool // rooms to follow (true) or to leave (false); the Link does not know yet
}

type phase uint8

const (
	phaseNew        phase = iota // no goroutine runs
	phaseSubscribed              // they run
	phaseClosed
)

var (
	errClosed = errors.New("sluice: backplane: closed")
	errTwice  = errors.New("sluice: backplane: it belongs to a hub already")
)

// New returns a Relay that calls link after Subscribe.
func New(link Link, o Options) *Relay {
	r := &Relay{
		link: link, name: o.Package, onError: o.OnError, changes: map[string]bool{},
		toSend: make(chan struct{}, 1), toHand: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	r.out.limit = cmp.Or(max(o.MaxPending, 0), defaultPending)
	r.in.limit = r.out.limit
	_, _ = rand.Read(r.id[:])
	return r
}

// Subscribe implements backplane.Backplane.
func (r *Relay) Subscribe(to backplane.Receiver) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.phase {
	case phaseSubscribed:
		return errTwice
	case phaseClosed:
		return errClosed
	}
	r.phase = phaseSubscribed
	r.running.Go(r.send)
	r.running.Go(func() { r.hand(to) })
	return nil
}

// Join implements backplane.Backplane.
func (r *Relay) Join(room string) error { return r.change(room, true) }

// Leave implements backplane.Backplane.
func (r *Relay) Leave(room string) error { return r.change(room, false) }

// change notes what the Link must do. As Join and Leave of a room alternate, a change that
// waits is the opposite of this one. So there are never more changes than rooms that are
// joined or that the Link follows.
func (r *Relay) change(room string, isJoined bool) error {
	if len(room) > backplane.MaxRoom {
		return backplane.ErrTooLarge
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == phaseClosed {
		return errClosed
	}
	if _, waits := r.changes[room]; waits {
		delete(r.changes, room)
		return nil
	}
	r.changes[room] = isJoined
	wake(r.toSend)
	return nil
}

// Publish implements backplane.Backplane.
func (r *Relay) Publish(room string, data []byte) error {
	if len(room) > backplane.MaxRoom || len(data) > backplane.MaxData {
		return backplane.ErrTooLarge
	}
	if r.isClosed() {
		return errClosed
	}
	m := Message{room, append(append(make([]byte, 0, Overhead+len(data)), r.id[:]...), data...)}
	if !r.out.push(m) {
		return backplane.ErrFull
	}
	wake(r.toSend)
	return nil
}

// Deliver takes a message from the broker, and its Data. It never waits: a message for
// which there is no room becomes a gap. The caller's goroutine decides the order.
func (r *Relay) Deliver(m Message) {
	if len(m.Data) < Overhead || bytes.Equal(m.Data[:Overhead], r.id[:]) {
		return
	}
	if !r.in.push(m) {
		r.in.skip(m.Room)
	}
	wake(r.toHand)
}

// Lost says that messages of any room may have been lost, as those between the end of a
// connection to the broker and the next one that follows all rooms.
func (r *Relay) Lost() {
	r.in.skip("")
	wake(r.toHand)
}

// Failed reports an error of the broker's client, unless it is nil or Close has caused it.
func (r *Relay) Failed(err error) {
	if err != nil && r.onError != nil && !r.isClosed() {
		r.onError(fmt.Errorf("sluice: %s: %w", r.name, err))
	}
}

func (r *Relay) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// Close ends the goroutines and closes the Link; it waits for calls that are running. What
// waits is dropped.
func (r *Relay) Close() {
	r.mu.Lock()
	isFirst := r.phase != phaseClosed
	r.phase = phaseClosed
	r.mu.Unlock()
	if isFirst {
		close(r.closed)
		r.link.Close()
	}
	r.running.Wait()
}

// send calls the Link.
func (r *Relay) send() {
	for r.wait(r.toSend) {
		if join, leave := r.takeChanges(); len(join)+len(leave) > 0 {
			r.Failed(r.link.Follow(join, leave))
		}
		if batch := r.out.take(batchBytes); len(batch) > 0 {
			r.Failed(r.link.Publish(batch))
			wake(r.toSend)
		}
	}
}

func (r *Relay) takeChanges() (join, leave []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for room, isJoined := range r.changes {
		if isJoined {
			join = append(join, room)
		} else {
			leave = append(leave, room)
		}
	}
	if len(r.changes) > 0 {
		r.changes = map[string]bool{}
	}
	return join, leave
}

// hand calls the Receiver.
func (r *Relay) hand(to backplane.Receiver) {
	for r.wait(r.toHand) {
		m, ok := r.in.pop()
		switch {
		case !ok:
			continue
		case m.Data == nil:
			to.Gap(m.Room)
		default:
			to.Received(m.Room, m.Data[Overhead:])
		}
		wake(r.toHand)
	}
}

// wait returns true when there is something to do, false after Close.
func (r *Relay) wait(todo <-chan struct{}) bool {
	select {
	case <-r.closed:
		return false
	case <-todo:
		return !r.isClosed()
	}
}

func wake(todo chan<- struct{}) {
	select {
	case todo <- struct{}{}:
	default:
	}
}
