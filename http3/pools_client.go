package http3

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/client/streams"
)

// clientStreamPool has clientStreams without a request.
var clientStreamPool = sync.Pool{New: func() any { return new(clientStream) }}

func acquireClientStream() *clientStream { return clientStreamPool.Get().(*clientStream) }

// keptSection is how many bytes a clientStream keeps for the next head.
const keptSection = 4 << 10

// releaseClientStream forgets the request, and keeps the memory of small ones.
func releaseClientStream(s *clientStream) {
	if s.in != nil {
		s.in.Release()
	}
	s.response = response{}
	s.trailer.Reset()
	if cap(s.section) > keptSection {
		s.section = nil
	}
	if cap(s.out) > keptSection {
		s.out = nil
	}
	s.unwatch = nil
	s.mu.Lock()
	s.params, s.conn, s.quic = streams.Params{}, nil, nil
	s.state, s.cause, s.failure, s.upload = clientIdle, nil, streams.Failure{}, uploadNone
	s.isSent, s.isReused, s.readDue, s.writeDue = false, false, 0, 0
	s.mu.Unlock()
	clientStreamPool.Put(s)
}
