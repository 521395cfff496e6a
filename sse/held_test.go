package sse

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// TestHeldForOneClient: clients that read nothing hold some buffers each, no events, whether
// they wait for new events, or have come back for all of the history; also for a thousand topics.
func TestHeldForOneClient(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const conns, streams, events, history, buffers = 10, 10, 1000, 2 << 20, 64 << 10
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		for name, test := range map[string]struct {
			topics             int
			comesBack, isHTTP2 bool
		}{
			"new events":        {1, false, false},
			"history":           {1, true, false},
			"topics":            {1000, true, false},
			"HTTP/2":            {1, false, true},
			"HTTP/2, come back": {1, true, true},
		} {
			t.Run(name, func(t *testing.T) {
				f := start(t, e, Options{HistoryBytes: history})
				topic := func(i int) string { return fmt.Sprint("t", i%test.topics) }
				f.publish(topic(0), "first")
				first := f.open(topic(0), "")
				first.conn.Close()
				event, _ := first.Next()
				data := strings.Repeat("x", 8<<10)
				publish := func() {
					for i := range events {
						f.publish(topic(i), data)
					}
				}
				lastID := ""
				if test.comesBack {
					lastID = event.ID
				} else {
					publish()
				}
				before := nettest.HeapInUse()
				if test.comesBack {
					for i := range history / len(data) / 2 {
						f.publish(topic(i), data)
					}
				}
				for i := range conns {
					if test.isHTTP2 {
						w := f.wire(0)
						for range streams {
							w.open(topic(i), lastID)
						}
						continue
					}
					f.begin(topic(i), lastID)
				}
				each := 1
				if test.isHTTP2 {
					each = streams
				}
				eventually(t, "all streams are open", func() bool { return f.hub.Stats().Streams >= conns*each })
				if !test.comesBack {
					publish()
				}
				time.Sleep(200 * time.Millisecond) // in which the server sends, and holds what it must not
				if got := nettest.HeapInUse() - before; got > history*3/2+conns*each*buffers {
					t.Errorf("%d clients make the server hold %d KiB", conns*each, got>>10)
				} else {
					t.Logf("%d KiB for %d clients", got>>10, conns*each)
				}
			})
		}
	})
}

// TestHeldByTopics: events without data, each of a topic of its own with a long name, make the Hub
// hold no more than its history, however many places History allows.
func TestHeldByTopics(t *testing.T) {
	const events, history = 100_000, 256 << 10
	h, err := New(Options{History: events, HistoryBytes: history})
	if err != nil {
		t.Fatal(err)
	}
	for name, topic := range map[string]func(i int) string{
		"one topic":      func(int) string { return "a" },
		"many topics":    func(i int) string { return fmt.Sprint(i) },
		"long names":     func(i int) string { return fmt.Sprintf("%0*d", MaxTopic, i) },
		"one long topic": func(int) string { return strings.Repeat("a", MaxTopic) },
	} {
		t.Run(name, func(t *testing.T) {
			before := nettest.HeapInUse()
			for i := range events {
				if err := h.Publish(topic(i), Event{}); err != nil {
					t.Fatal(err)
				}
			}
			nettest.HoldsAtMost(t, before, 1, history+(64<<10), 20*time.Second, func() int64 { return int64(h.Stats().Events) })
			if s := h.Stats(); s.HistoryBytes > history || s.Events == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// begin opens a stream of which nothing is read.
func (f *fixture) begin(topic, lastID string) {
	c, err := net.Dial("tcp4", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	_, _ = io.WriteString(c, "GET /"+topic+" HTTP/1.1\r\nHost: h\r\nLast-Event-ID: "+lastID+"\r\n\r\n")
}
