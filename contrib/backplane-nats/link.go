package natsbackplane

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicehttp/sluice/internal/process/relay"
)

const (
	inboxSize    = 4096             // messages between the client's goroutine and ours
	flushTimeout = 10 * time.Second // for the answer to a ping
)

var errBroken = errors.New("the connection broke")

// A link is the relay.Link to NATS. The client restores subscriptions.
type link struct {
	conn    *nats.Conn
	relay   *relay.Relay
	prefix  string // with all of the subject but the name
	inbox   chan *nats.Msg
	status  chan nats.Status
	ctx     context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup

	flushTimeout time.Duration // for the answer to a ping; not changed after Subscribe

	mu            sync.Mutex
	subscriptions map[string]*nats.Subscription // rooms; nil after Close
}

func newLink(conn *nats.Conn, prefix string) *link {
	l := &link{
		conn: conn, prefix: prefix + ".r", inbox: make(chan *nats.Msg, inboxSize),
		subscriptions: map[string]*nats.Subscription{}, flushTimeout: flushTimeout,
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

func (l *link) start() {
	l.status = l.conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	l.running.Go(l.receive)
	l.running.Go(l.watch)
}

// Close implements relay.Link.
func (l *link) Close() {
	l.mu.Lock()
	for _, s := range l.subscriptions {
		_ = s.Unsubscribe() // it fails if the connection is closed
	}
	l.subscriptions = nil
	l.mu.Unlock()
	l.end()
	if l.status != nil {
		l.conn.RemoveStatusListener(l.status)
	}
	l.running.Wait()
}

// receive empties the inbox. It never waits for the hub. The client drops messages, and
// tells only its error handler, when the inbox is full. It remains full until this
// goroutine takes a message, so that is when to look.
func (l *link) receive() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case m := <-l.inbox:
			if room, ok := l.roomOf(m.Subject); ok {
				l.relay.Deliver(relay.Message{Room: room, Data: m.Data})
			}
			if len(l.inbox) >= inboxSize-1 {
				l.relay.Lost()
			}
		}
	}
}

// watch tells of a gap after each new connection, when the server has got the subscriptions
// from the client: it answers in order.
func (l *link) watch() {
	for status := range l.status {
		switch status {
		case nats.RECONNECTING:
			l.relay.Failed(errBroken)
		case nats.CLOSED:
			l.relay.Failed(nats.ErrConnectionClosed)
		default:
			l.flush()
			l.relay.Lost()
		}
	}
}

// flush waits until the server has answered, or the connection has broken: another gap
// follows then.
func (l *link) flush() {
	for l.conn.IsConnected() && l.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(l.ctx, l.flushTimeout)
		err := l.conn.FlushWithContext(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return
		}
	}
}

// The name of a room is one token of a subject. The prefix ends with a letter, so the token
// is not empty if the name is.
func (l *link) subjectOf(room string) string {
	return l.prefix + base64.RawURLEncoding.EncodeToString([]byte(room))
}

func (l *link) roomOf(subject string) (room string, ok bool) {
	token, ok := strings.CutPrefix(subject, l.prefix)
	name, err := base64.RawURLEncoding.DecodeString(token)
	return string(name), ok && err == nil
}

// Follow implements relay.Link.
func (l *link) Follow(join, leave []string) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscriptions == nil {
		return nil
	}
	for _, room := range join {
		s, failed := l.conn.ChanSubscribe(l.subjectOf(room), l.inbox)
		if failed != nil {
			err = fmt.Errorf("%d rooms are not joined: %w", len(join), failed)
			break
		}
		l.subscriptions[room] = s
	}
	for _, room := range leave {
		if s := l.subscriptions[room]; s != nil {
			err = errors.Join(err, s.Unsubscribe())
			delete(l.subscriptions, room)
		}
	}
	return err
}

// Publish implements relay.Link.
func (l *link) Publish(batch []relay.Message) error {
	for i, m := range batch {
		if err := l.conn.Publish(l.subjectOf(m.Room), m.Data); err != nil {
			return fmt.Errorf("%d messages were not sent: %w", len(batch)-i, err)
		}
	}
	return nil
}
