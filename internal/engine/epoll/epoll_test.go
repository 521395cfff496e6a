//go:build linux && (amd64 || arm64)

package epoll

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/enginetest"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
	"github.com/sluicehttp/sluice/internal/engine/uring"
)

func newEngine(options engine.Options) engine.Engine {
	e, err := New(options, netconn.New(options))
	if err != nil {
		panic(err)
	}
	return e
}

func TestEngine(t *testing.T) { enginetest.RunProcs(t, newEngine) }

// newRingEngine returns an engine with batches.
func newRingEngine(options engine.Options) engine.Engine {
	options.IOUring = true
	return newEngine(options)
}

// The suite with responses that wait for batches; of TLS, none does.
func TestEngineIOUring(t *testing.T) {
	if err := uring.Obstacle(); err != nil {
		t.Skip(err)
	}
	networks := []enginetest.Network{enginetest.Sleeping(enginetest.TCP()), enginetest.TCP()}
	if !testing.Short() {
		networks = append(networks, enginetest.Unix(), enginetest.Sleeping(enginetest.TLSListener()))
	}
	enginetest.RunProcs(t, newRingEngine, networks...)
}

func TestSoak(t *testing.T) {
	enginetest.Soak(t, 1,
		enginetest.NamedEngine{Name: "epoll", New: newEngine},
		enginetest.NamedEngine{Name: "epoll and io_uring", New: newRingEngine},
		enginetest.NamedEngine{Name: "perconn", New: netconn.New})
}

func TestLoops(t *testing.T) {
	for _, n := range []int{1, 3} {
		e, err := New(engine.Options{Loops: n}, netconn.New(engine.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(e.Loops()); got != n {
			t.Errorf("%d loops, want %d", got, n)
		}
	}
}
