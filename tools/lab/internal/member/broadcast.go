//go:build linux

package member

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/websocket"
)

var errBroadcast = errors.New("a broadcast has come twice, or after the next one")

// everybody is the room of all WebSockets of a server.
const everybody = "everybody"

// broadcast sends a message of 32 bytes to all WebSockets of the server: when it was ordered.
func (s *server) broadcast(order control.Broadcast) {
	s.rooms.Broadcast(everybody, websocket.Prepare(websocket.Text, fmt.Appendf(nil, "%032d", order.At)))
}

// An audience is what a client hears of broadcasts.
type audience struct {
	mu        sync.Mutex
	heard     control.Heard
	total     int                     // of all broadcasts
	latencies *hdrhistogram.Histogram // nil: there was no broadcast
}

// hears takes in that a broadcast has reached p.
func (a *audience) hears(p *peer, text []byte, now int64) error {
	at, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("a text of %d bytes is no broadcast", len(text))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case at <= p.heard || at < a.heard.At:
		return errBroadcast
	case at > a.heard.At:
		a.heard = control.Heard{At: at, First: now}
		a.latencies = hdrhistogram.New(1, longestLatency, significantDigits)
	}
	p.heard = at
	a.total++
	a.heard.Count++
	a.heard.Last = now
	_ = a.latencies.RecordValue(min(max((now-at)/int64(time.Microsecond), 1), longestLatency))
	return nil
}

// count fills in what was heard.
func (a *audience) count(s *control.Stats) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.HeardTotal = a.total
	if !s.Asked || a.latencies == nil {
		return
	}
	heard := a.heard
	heard.Latencies, _ = a.latencies.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	s.Heard = &heard
}
