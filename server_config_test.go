package sluice

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// TestEngineOptions: what an engine is told of a Server's settings.
func TestEngineOptions(t *testing.T) {
	base := engine.Options{HandshakeTimeout: handshakePatience, SparesDeadlines: true}
	for name, c := range map[string]struct {
		server *Server
		change func(o *engine.Options)
	}{
		"nothing":        {&Server{}, func(*engine.Options) {}},
		"negative":       {&Server{Loops: -1, MaxWorkers: -1, ReadTimeout: -1, ReadBufferSize: -1}, func(*engine.Options) {}},
		"loops":          {&Server{Loops: 1, MaxWorkers: 1}, func(o *engine.Options) { o.Loops, o.MaxWorkers = 1, 1 }},
		"write buffer":   {&Server{WriteBufferSize: 1}, func(o *engine.Options) { o.FlushSize = 1 }},
		"read buffer":    {&Server{ReadBufferSize: 1}, func(o *engine.Options) { o.ReadBufferSize = 1 }},
		"large buffer":   {&Server{ReadBufferSize: 1 << 20}, func(o *engine.Options) { o.ReadBufferSize = 65536 }},
		"read time-out":  {&Server{ReadTimeout: 1}, func(o *engine.Options) { o.HandshakeTimeout = 1 }},
		"idle workers":   {&Server{MaxIdleWorkerDuration: 1}, func(o *engine.Options) { o.MaxIdleWorkerTime = 1 }},
		"keep-alive":     {&Server{TCPKeepalive: true}, func(o *engine.Options) { o.KeepAlivePeriod = 15 * time.Second }},
		"its own period": {&Server{TCPKeepalive: true, TCPKeepalivePeriod: 1}, func(o *engine.Options) { o.KeepAlivePeriod = 1 }},
		"less memory":    {&Server{ReduceMemoryUsage: true}, func(o *engine.Options) { o.ReduceMemory = true }},
		"a period alone": {&Server{TCPKeepalivePeriod: 1}, func(*engine.Options) {}},
	} {
		want := base
		c.change(&want)
		if got := c.server.engineOptions(); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
