// Package natsbackplane connects the rooms of several processes by NATS.
//
//	conn, err := nats.Connect("nats://nats:4222", nats.MaxReconnects(-1))
//	plane, err := natsbackplane.New(conn, natsbackplane.Options{})
//	hub, err := room.New(room.Options{Backplane: plane})
//
// A room is a subject: the prefix, and a token that encodes the name, so any name is safe.
// Subscriptions have no goroutines. The server may send a message also to the process that
// has published it (see nats.NoEcho), which ignores it: 8 bytes in front of each message
// tell.
//
// Delivery is at most once. When the client has connected again, the hub is told of a gap.
// Publish returns backplane.ErrFull if more waits to be sent than Options.MaxPending. While
// there is no connection, the client keeps what is published, up to nats.ReconnectBufSize.
// It gives up after nats.MaxReconnects attempts, 60 by default; then the Backplane works no
// longer. What the server refuses, such as a subject, it tells nats.ErrorHandler.
package natsbackplane

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/process/relay"
)

// Options configure a Backplane; all fields may be zero.
type Options struct {
	// Prefix is the first part of subjects, without the last dot; "": "sluice". Programs
	// that use one server, for rooms that are not the same, need different ones.
	Prefix string
	// MaxPending is how many bytes may wait to be sent, and how many received ones may wait
	// for the hub; 0: 16 MiB each. A message counts 64 bytes more than its name and data.
	// Another 4,096 messages fit between the client and this package; they wait only
	// while the processors are busy.
	MaxPending int
	// OnError is called for errors of the client: a connection that broke, messages that
	// were not sent. Calls may be concurrent. It must not block.
	OnError func(err error)
}

// A Backplane is a backplane.Backplane over a connection to NATS. Make it with New.
type Backplane struct {
	relay *relay.Relay
	link  *link
}

var _ backplane.Backplane = (*Backplane)(nil)

// maxPrefix leaves room for the longest name in a line of the protocol, 4,096 bytes.
const maxPrefix = 256

// New returns a Backplane for one hub. The connection remains the caller's, to be closed
// after the Backplane. The error is that of a prefix which is no subject, or of a server
// whose max_payload is too small for backplane.MaxData and 8 bytes; its default is not.
func New(conn *nats.Conn, o Options) (*Backplane, error) {
	prefix := cmp.Or(o.Prefix, "sluice")
	if len(prefix) > maxPrefix || strings.ContainsAny(prefix, " \t\r\n*>\x00") || strings.Contains("."+prefix+".", "..") {
		return nil, fmt.Errorf("sluice: natsbackplane: the prefix %q is no subject", prefix)
	}
	const needed = backplane.MaxData + relay.Overhead
	if has := conn.MaxPayload(); has > 0 && has < needed {
		return nil, fmt.Errorf("sluice: natsbackplane: the server's max_payload is %d, less than %d", has, needed)
	}
	l := newLink(conn, prefix)
	l.relay = relay.New(l, relay.Options{Package: "natsbackplane", MaxPending: o.MaxPending, OnError: o.OnError})
	return &Backplane{relay: l.relay, link: l}, nil
}

// Subscribe implements backplane.Backplane.
func (b *Backplane) Subscribe(r backplane.Receiver) error {
	err := b.relay.Subscribe(r)
	if err == nil {
		b.link.start()
	}
	return err
}

// Join implements backplane.Backplane.
func (b *Backplane) Join(room string) error { return b.relay.Join(room) }

// Leave implements backplane.Backplane.
func (b *Backplane) Leave(room string) error { return b.relay.Leave(room) }

// Publish implements backplane.Backplane.
func (b *Backplane) Publish(room string, data []byte) error { return b.relay.Publish(room, data) }

// Close ends the Backplane: its subscriptions, its goroutines, and what waits to be sent.
// The Receiver is not called any more; it must not call Close. Later calls return errors.
func (b *Backplane) Close() { b.relay.Close() }
