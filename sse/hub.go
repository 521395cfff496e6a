// Package sse sends server-sent events (WHATWG HTML section 9.2), which browsers receive
// with EventSource. A stream on an event engine holds no goroutine: it is a place in the log
// of a Hub, and about 170 bytes, or 1,100 over HTTP/2.
package sse

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/process/recall"
)

const (
	// MaxTopics is how many topics a stream can have.
	MaxTopics = 64
	// MaxTopic is how many bytes the name of a topic can have.
	MaxTopic = 1 << 10
	// GapEvent is the Name of the event that tells a client that comes back that it has
	// missed events which are not in the history any more. It comes first, if there is no
	// Options.Snapshot. Programs should not publish events of this Name.
	GapEvent = "gap"
)

var (
	// ErrTopics is returned by Serve if there is no topic, or more than MaxTopics, or one
	// twice; and by Publish, too, for a name that is longer than MaxTopic.
	ErrTopics = errors.New("sluice: sse: the topics are none, too many, too long, or not different")
	// ErrSlow is what Options.OnClose gets for a client that has read so slowly that its next
	// event has left the history. It connects again.
	ErrSlow = errors.New("sluice: sse: the client is too slow")
	// ErrGoingAway is what Options.OnClose gets for a stream that ends because the server
	// does, or is replaced.
	ErrGoingAway = errors.New("sluice: sse: the server goes away")
)

// Options configure a Hub. All fields may be zero.
type Options struct {
	// Name names the Hub in other processes; see Hub.Register and Backplane. It has at most
	// 200 bytes.
	Name string
	// History is how many events are kept, of all topics together: for clients that connect
	// again, and for slow ones. 0: 10,000.
	History int
	// HistoryBytes bounds the memory of these events, with the names of their topics and 256
	// bytes for each; 0: 16 MiB.
	HistoryBytes int
	// Retry is how long a client waits before it connects again; 0: as it likes. At the end
	// of a server each client is told another time, up to twice as long.
	Retry time.Duration
	// Heartbeat is the silence after which a comment is sent, which finds clients that are
	// gone, and keeps proxies from closing the stream; 0: 25 s, < 0: never. It differs by a
	// fifth from stream to stream.
	Heartbeat time.Duration
	// WriteTimeout bounds how long a client may read nothing while something waits for it;
	// 0: 30 s, < 0: for ever.
	WriteTimeout time.Duration
	// RestartSpread is the time within which streams end that cannot move when another
	// process replaces this one; 0: 4 s.
	RestartSpread time.Duration
	// Snapshot returns what a client gets first that is new, or has missed events that are
	// not in the history any more. Events that are published while it runs follow; it is called
	// again if they do not fit into the history, up to three times. It runs
	// in Serve and may block; Serve returns its error. nil: nothing; a client that has missed
	// events gets a GapEvent, and the events that are in the history.
	Snapshot func(ctx *sluice.RequestCtx, topics []string) ([]Event, error)
	// OnClose is called at the end of a stream that has begun, and has not moved to another
	// process. err is io.EOF if the client has ended it, ErrSlow, ErrGoingAway, or what broke
	// the connection. It must not block.
	OnClose func(topics []string, err error)
	// Backplane connects the Hubs with the same Name in several processes: each gets the
	// events of all of them, and at its beginning their histories. Until it has those, for
	// some seconds at most, Serve waits. A Backplane belongs to one Hub. nil: there is this process.
	Backplane backplane.Backplane
	// OnGap is called when events of other processes may have been lost on the way, and when
	// a client comes back whose next event has left the history. What the histories of other
	// processes have of lost events is sent to the streams afterwards. It must not block.
	OnGap func()
}

// A Hub sends events to the streams of their topics. Make it with New: the zero value panics.
// Its methods may be called by any number of goroutines.
type Hub struct {
	options Options
	family  *family
	seed    maphash.Seed
	recall  *recall.Recall // nil: there is no Backplane

	order   [64]sync.Mutex // of topics: one event of a topic is sent at a time. Taken first
	publish sync.Mutex     // events of this process get their numbers and are published in order

	mu      sync.Mutex // guards the rest, and the streams
	log     log
	number  uint64 // of the last event of this process
	streams int
}

// New returns a Hub without streams. The error says that the Name is too long, or that History or
// HistoryBytes is negative, or is that of the Backplane.
func New(o Options) (*Hub, error) {
	if len(o.Name) > 200 {
		return nil, fmt.Errorf("sluice: sse: Options.Name %q is too long", o.Name)
	}
	if o.History < 0 || o.HistoryBytes < 0 {
		return nil, fmt.Errorf("sluice: sse: Options.History %d or HistoryBytes %d is negative", o.History, o.HistoryBytes)
	}
	o.History = withDefault(o.History, 10_000)
	o.HistoryBytes = withDefault(o.HistoryBytes, 16<<20)
	o.Heartbeat = max(withDefault(o.Heartbeat, 25*time.Second), 0)
	o.WriteTimeout = withDefault(o.WriteTimeout, 30*time.Second)
	o.RestartSpread = withDefault(o.RestartSpread, 4*time.Second)
	h := &Hub{options: o, seed: maphash.MakeSeed(), log: newLog(rand.Uint32(), o.History, o.HistoryBytes)}
	h.family = &family{hub: h}
	if b := o.Backplane; b != nil {
		h.recall = recall.New(recall.Options{Log: recalled{h}, Plane: b, Room: h.room(), Run: h.log.sources[0].run, Most: o.HistoryBytes})
		if err := b.Subscribe(receiver{h}); err != nil {
			return nil, err
		}
		if err := h.recall.Begin(); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func withDefault[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// Publish sends e to all streams of a topic, and keeps it for those that come back. The
// streams of this process that are idle get it on the caller's goroutine; Publish does not
// wait for slow ones. It copies e.Data, and does not use e.ID. All streams of this process
// see the events of all topics in one order. The error is ErrTooLarge, ErrName, ErrTopics,
// or that of the Backplane: then the streams of this process have got the event.
func (h *Hub) Publish(topic string, e Event) error {
	if err := e.check(); err != nil {
		return err
	}
	if len(e.Name)+len(e.Data) > h.options.HistoryBytes {
		return ErrTooLarge
	}
	if len(topic) > MaxTopic {
		return ErrTopics
	}
	order := h.orderOf(topic)
	order.Lock()
	defer order.Unlock()
	h.publish.Lock()
	h.mu.Lock()
	h.number++
	m := mark{h.log.sources[0].run, h.number}
	c := h.beginLocked(topic, m, &e)
	h.mu.Unlock()
	var err error
	if b := h.options.Backplane; b != nil {
		err = b.Publish(h.room(), appendMessage(nil, message{topic: topic, mark: m, event: e}))
	}
	h.publish.Unlock()
	h.castLocked(c)
	return err
}

// Len returns how many streams of a topic this process has.
func (h *Hub) Len(topic string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.log.topics[topic]; t != nil {
		return len(t.members)
	}
	return 0
}

// Stats are numbers of a Hub in this process.
type Stats struct {
	Streams      int // that are open
	Topics       int // with streams or events
	Events       int // in the history
	HistoryBytes int // of these
}

// Stats returns the numbers now.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &h.log
	return Stats{Streams: h.streams, Topics: len(l.topics), Events: int(l.last + 1 - l.first), HistoryBytes: l.bytes}
}

// room is that of the Hub on its Backplane.
func (h *Hub) room() string { return "sse:" + h.options.Name }
