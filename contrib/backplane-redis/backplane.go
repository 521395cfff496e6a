// Package redisbackplane connects the rooms of several processes by the publish and
// subscribe commands of Redis or Valkey.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	plane, err := redisbackplane.New(client, redisbackplane.Options{})
//	hub, err := room.New(room.Options{Backplane: plane})
//
// A room is a channel: the prefix and the name. Redis sends a message also to the process
// that has published it, which ignores it: 8 bytes in front of each message tell. A process
// uses one connection for what it receives, and those of the client's pool to publish.
//
// Delivery is at most once. What is published while the connection is broken is lost for
// the others; when a process is connected again, with all its rooms, its hub is told of a
// gap. Publish returns backplane.ErrFull if more waits to be sent than Options.MaxPending.
package redisbackplane

import (
	"cmp"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/process/relay"
)

// Options configure a Backplane; all fields may be zero.
type Options struct {
	// Prefix begins the names of channels; "": "sluice:". Programs that use one server,
	// for rooms that are not the same, need different ones.
	Prefix string
	// MaxPending is how many bytes may wait to be sent, and how many received ones may wait
	// for the hub; 0: 16 MiB each. A message counts 64 bytes more than its name and data.
	MaxPending int
	// OnError is called for errors of the client: a connection that broke or cannot be
	// made, messages that were not sent, commands that the server refused. Calls may be
	// concurrent. It must not block.
	OnError func(err error)
}

// A Backplane is a backplane.Backplane over a client of Redis. Make it with New.
type Backplane struct {
	relay *relay.Relay
	link  *link
}

var _ backplane.Backplane = (*Backplane)(nil)

// New returns a Backplane for one hub. It does not wait for the server, which may be
// started later. The client remains the caller's, to be closed after the Backplane. It may
// be one of a server, of sentinels, or of a cluster; a redis.Ring is refused.
func New(client redis.UniversalClient, o Options) (*Backplane, error) {
	if _, isRing := client.(*redis.Ring); isRing {
		return nil, errors.New("sluice: redisbackplane: a redis.Ring has no connection for all channels")
	}
	l := newLink(client, cmp.Or(o.Prefix, "sluice:"))
	l.relay = relay.New(l, relay.Options{Package: "redisbackplane", MaxPending: o.MaxPending, OnError: o.OnError})
	return &Backplane{relay: l.relay, link: l}, nil
}

// Subscribe implements backplane.Backplane.
func (b *Backplane) Subscribe(r backplane.Receiver) error {
	err := b.relay.Subscribe(r)
	if err == nil {
		b.link.running.Go(b.link.run)
	}
	return err
}

// Join implements backplane.Backplane.
func (b *Backplane) Join(room string) error { return b.relay.Join(room) }

// Leave implements backplane.Backplane.
func (b *Backplane) Leave(room string) error { return b.relay.Leave(room) }

// Publish implements backplane.Backplane.
func (b *Backplane) Publish(room string, data []byte) error { return b.relay.Publish(room, data) }

// Close ends the Backplane: its connection, its goroutines, and what waits to be sent. The
// Receiver is not called any more; it must not call Close. Later calls return errors.
func (b *Backplane) Close() { b.relay.Close() }
