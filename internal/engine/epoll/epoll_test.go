//go:build linux && (amd64 || arm64)

package epoll

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/enginetest"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

func newEngine(options engine.Options) engine.Engine {
	e, err := New(options, netconn.New(options))
	if err != nil {
		panic(err)
	}
	return e
}

func TestEngine(t *testing.T) { enginetest.RunProcs(t, newEngine) }

func TestSoak(t *testing.T) {
	enginetest.Soak(t, 1,
		enginetest.NamedEngine{Name: "epoll", New: newEngine},
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
