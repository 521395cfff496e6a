//go:build linux && (amd64 || arm64)

package core

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/enginetest"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

// The suite over poll(2): the core needs of a Source what source.go says, and nothing else
// of epoll's. What is above the Source, and other networks, package epoll tests, too.
func TestEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("package epoll runs the suite")
	}
	enginetest.Run(t, func(options engine.Options) engine.Engine {
		e, err := newEngine(options, netconn.New(options))
		if err != nil {
			panic(err)
		}
		return e
	}, enginetest.TCP(), enginetest.Sleeping(enginetest.TCP()), enginetest.Sleeping(enginetest.TLSListener()))
}

// The suite with TLS connections that cool down as soon as they are idle.
func TestEngineCooling(t *testing.T) {
	if testing.Short() {
		t.Skip("TestEngine runs the suite")
	}
	enginetest.Run(t, func(options engine.Options) engine.Engine {
		e, err := newEngine(options, netconn.New(options))
		if err != nil {
			panic(err)
		}
		e.(*driver).cooler.period = time.Millisecond
		return e
	}, enginetest.CompactTLS(), enginetest.Sleeping(enginetest.CompactTLS()))
}

// The suite with responses that wait for batches. What is told of a Source, a ring does not
// tell: EAGAIN above all. Package epoll has four kinds of connections.
func TestEngineIOUring(t *testing.T) {
	if testing.Short() {
		t.Skip("package epoll runs the suite")
	}
	needsRing(t)
	enginetest.Run(t, func(options engine.Options) engine.Engine {
		options.IOUring = true
		e, err := newEngine(options, netconn.New(options))
		if err != nil {
			panic(err)
		}
		return e
	}, enginetest.Sleeping(enginetest.TCP()))
}
