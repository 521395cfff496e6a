package redisbackplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehttp/sluice/internal/process/relay"
)

// The client connects again by itself, and does not tell. So each of its PubSubs is used
// for one connection, and is closed at the first error.
const (
	pingAfter  = 15 * time.Second // a connection that is silent for so long after a ping is dead
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// restored is the payload of the ping after the SUBSCRIBE for all rooms.
const restored = "restored"

var errSilent = errors.New("the server does not answer")

// A link is the relay.Link to Redis.
type link struct {
	client    redis.UniversalClient
	relay     *relay.Relay
	prefix    string
	pingAfter time.Duration
	ctx       context.Context // ends with Close
	end       context.CancelFunc
	running   sync.WaitGroup

	mu     sync.Mutex
	rooms  map[string]struct{} // channels; what pubsub is subscribed to
	pubsub *redis.PubSub       // nil between two connections
}

func newLink(client redis.UniversalClient, prefix string) *link {
	l := &link{client: client, prefix: prefix, pingAfter: pingAfter, rooms: map[string]struct{}{}}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// Close implements relay.Link.
func (l *link) Close() {
	l.end()
	l.running.Wait()
}

// run holds a connection for what is received.
func (l *link) run() {
	pause := firstPause
	for attempt := 0; l.ctx.Err() == nil; attempt++ {
		begun := time.Now()
		l.relay.Failed(l.receive(attempt > 0))
		if pause = min(2*pause, maxPause); time.Since(begun) > maxPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-l.ctx.Done():
		}
	}
}

// receive makes a connection, joins the rooms and receives until the connection ends.
func (l *link) receive(isAgain bool) error {
	p := l.client.Subscribe(l.ctx)
	done := context.AfterFunc(l.ctx, func() { _ = p.Close() })
	defer l.leave(p, done)
	if err := l.enter(p, isAgain); err != nil {
		return err
	}
	var isHeard, isSilent atomic.Bool
	ended := make(chan struct{})
	defer close(ended)
	l.running.Go(func() {
		if l.watch(p, &isHeard, ended) {
			isSilent.Store(true)
			_ = p.Close()
		}
	})
	for {
		m, err := p.Receive(l.ctx)
		var refused redis.Error
		switch {
		case errors.As(err, &refused): // the answer to a SUBSCRIBE; the connection goes on
			l.relay.Failed(fmt.Errorf("SUBSCRIBE: %w", err))
		case isSilent.Load():
			return errSilent
		case err != nil:
			return err
		}
		isHeard.Store(true)
		l.received(m)
	}
}

func (l *link) received(m any) {
	switch m := m.(type) {
	case *redis.Message:
		l.relay.Deliver(relay.Message{Room: strings.TrimPrefix(m.Channel, l.prefix), Data: []byte(m.Payload)})
	case *redis.Pong:
		if m.Payload == restored {
			l.relay.Lost()
		}
	}
}

// enter subscribes p to all rooms. The server answers in order: after the pong, nothing
// more is lost.
func (l *link) enter(p *redis.PubSub, isAgain bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rooms) > 0 {
		if err := p.Subscribe(l.ctx, slices.Collect(maps.Keys(l.rooms))...); err != nil {
			return err
		}
	}
	l.pubsub = p
	if isAgain {
		return p.Ping(l.ctx, restored)
	}
	return p.Ping(l.ctx)
}

func (l *link) leave(p *redis.PubSub, done func() bool) {
	l.mu.Lock()
	l.pubsub = nil
	l.mu.Unlock()
	done()
	_ = p.Close()
}

// watch sends pings, and returns true if the server is silent. The first ping is enter's.
func (l *link) watch(p *redis.PubSub, isHeard *atomic.Bool, ended <-chan struct{}) (isSilent bool) {
	tick := time.NewTicker(l.pingAfter)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
		if !isHeard.Swap(false) || p.Ping(l.ctx) != nil {
			return true
		}
	}
}

// Follow implements relay.Link.
func (l *link) Follow(join, leave []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, room := range join {
		join[i] = l.prefix + room
		l.rooms[join[i]] = struct{}{}
	}
	for i, room := range leave {
		leave[i] = l.prefix + room
		delete(l.rooms, leave[i])
	}
	var err error
	if l.pubsub != nil && len(join) > 0 { // without names, the commands mean other things
		err = l.pubsub.Subscribe(l.ctx, join...)
	}
	if l.pubsub != nil && len(leave) > 0 {
		err = errors.Join(err, l.pubsub.Unsubscribe(l.ctx, leave...))
	}
	if err != nil { // the client has a new connection now, and does not tell
		_ = l.pubsub.Close()
	}
	return err
}

// A publication is a PUBLISH that the client does not repeat: the server may have sent the
// message before the connection broke.
type publication struct{ *redis.IntCmd }

// NoRetry implements redis.Cmder.
func (publication) NoRetry() bool { return true }

// Publish implements relay.Link.
func (l *link) Publish(batch []relay.Message) error {
	p := l.client.Pipeline()
	for _, m := range batch {
		if err := p.Process(l.ctx, publication{redis.NewIntCmd(l.ctx, "publish", l.prefix+m.Room, m.Data)}); err != nil {
			return err
		}
	}
	if _, err := p.Exec(l.ctx); err != nil {
		return fmt.Errorf("of %d messages, some were not sent: %w", len(batch), err)
	}
	return nil
}
