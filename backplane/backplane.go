// Package backplane says how messages travel between processes that serve the same rooms or
// topics: room.Hub and sse.Hub use it. Package prefork has one for the workers of one
// master; the modules contrib/backplane-nats and contrib/backplane-redis connect machines.
package backplane

import "errors"

// A Backplane carries messages of rooms between processes. A hub delivers a message to its
// own members and then publishes it; the hubs of the other processes deliver it to theirs.
// Delivery is at most once. Messages that one process publishes to one room arrive in
// order; there is no order between processes.
//
// Programs implement it over what connects their processes; a hub calls it. Its methods may
// be called by any number of goroutines. They must not wait for the network, because a hub
// may call Join and Leave on goroutines that serve connections, nor for a call of the
// Receiver, which may be waiting for the hub.
type Backplane interface {
	// Subscribe sets the receiver. A hub calls it once, before any other method.
	Subscribe(r Receiver) error
	// Join says that this process has members of a room now, and Leave that it has
	// none any more. Calls for one room alternate. A Join over a network takes effect
	// some time after it has returned; messages that are published until then are missed.
	// One that is received after Leave is ignored.
	Join(room string) error
	Leave(room string) error
	// Publish sends data to the other processes that have joined room. It does not
	// retain data. It does not wait for them: if one cannot take the message, that one is
	// told of a gap. It returns ErrTooLarge if the room's name or data is too large, and
	// ErrFull if too many messages wait to be sent. Then no other process gets this one.
	Publish(room string, data []byte) error
}

// A Connector is a Backplane that knows when it connects this process with the others. Hubs
// with a history then get that of the others, before the process serves. With other
// Backplanes they ask until another process answers, for up to a second.
type Connector interface {
	Backplane
	// OnConnect sets a function that is called once, when what the others publish reaches this
	// process and the reverse. A hub calls it after its first Join. The process does not
	// serve before f has returned, if it does not serve yet.
	OnConnect(f func())
	// Others returns how many other processes seem to have joined room.
	Others(room string) int
}

// A Receiver gets what other processes publish. It must not block. Its methods are never
// called concurrently for one room.
type Receiver interface {
	// Received is called for each message; data is valid until it returns.
	Received(room string, data []byte)
	// Gap is called when messages of room may have been lost; with "", of any room.
	Gap(room string)
}

const (
	// MaxRoom is how many bytes the name of a room can have.
	MaxRoom = 1 << 10
	// MaxData is how many bytes a message can have.
	MaxData = 512 << 10
)

// ErrTooLarge is returned by Join and Publish for a room whose name is longer than MaxRoom,
// and by Publish for data longer than MaxData.
var ErrTooLarge = errors.New("sluice: backplane: the message or the name of its room is too large")

// ErrFull is returned by Publish if too many messages wait to be sent.
var ErrFull = errors.New("sluice: backplane: too many messages wait to be sent")
