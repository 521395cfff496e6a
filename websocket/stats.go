package websocket

import (
	"errors"
)

// Stats are numbers of an Endpoint in this process. Those of connections of Dial are not
// among them.
type Stats struct {
	Open     int    // connections now
	Opened   uint64 // connections, those that other processes have handed over included
	Received uint64 // messages
	Sent     uint64 // messages that were accepted to be sent
	Dropped  uint64 // messages, because the peer is slow; see SlowPolicy
	Pending  int64  // bytes that wait for peers now; see Endpoint.MaxPendingTotal
	// Closed has how many connections have ended with a code: one of RFC 6455 section
	// 7.4.1, 3000 for all codes of libraries, 4000 for those of programs. Those that ended
	// without a Close frame have 1006. Those that have moved to another process have none.
	Closed map[Code]uint64
}

// Stats returns the numbers now. They are added up when it is called, so it is for
// monitoring.
func (e *Endpoint) Stats() Stats {
	set := e.settings()
	s := Stats{Closed: map[Code]uint64{}, Pending: set.pendingTotal.bytes.Load()}
	set.counting.Lock()
	defer set.counting.Unlock()
	for _, h := range set.hosts {
		for i := range h.locks {
			l := &h.locks[i]
			l.Lock()
			t := l.counts
			l.Unlock()
			s.Open += int(t.opened - t.closed)
			s.Opened += t.opened
			s.Received += t.received
			s.Sent += t.sent
			s.Dropped += t.dropped
		}
		h.closes.add(s.Closed)
	}
	return s
}

// count counts an end.
func (n *closes) count(err error) {
	code := CodeAbnormal
	var closing *CloseError
	if errors.As(err, &closing) {
		code = closing.Code
	}
	switch {
	case code >= 4000:
		n[registeredCodes+1].Add(1)
	case code >= 3000:
		n[registeredCodes].Add(1)
	case code >= 1000 && code < 1000+registeredCodes:
		n[code-1000].Add(1)
	default: // it has none
		n[CodeNone-1000].Add(1)
	}
}

// add adds the counts to sum.
func (n *closes) add(sum map[Code]uint64) {
	for i := range n {
		count := n[i].Load()
		if count == 0 {
			continue
		}
		code := Code(1000 + i)
		if i >= registeredCodes {
			code = Code(3000 + 1000*(i-registeredCodes))
		}
		sum[code] += count
	}
}
