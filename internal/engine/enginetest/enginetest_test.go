package enginetest

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

func newDrowsy(o engine.Options) engine.Engine { return drowsy{netconn.New(o)} }

// TestSleepers runs the suite on an engine that makes use of sleepers wherever
// it may. The engines' own tests do the rest.
func TestSleepers(t *testing.T) {
	Run(t, newDrowsy, Sleeping(TCP()))
}

func TestSoak(t *testing.T) {
	Soak(t, 1, NamedEngine{"perconn", netconn.New}, NamedEngine{"drowsy", newDrowsy})
}

// TestScripts: a failure can only be repeated if a seed always makes the same
// scripts.
func TestScripts(t *testing.T) {
	text := patternText(soakText)
	ends := make(map[ending]int)
	for seed := range uint64(5) {
		for client := range soakClients {
			one, other := newScript(seed, client, 7, text), newScript(seed, client, 7, text)
			if one.String() != other.String() || one.server >= 7 {
				t.Fatalf("two scripts of one seed:\n%s\n%s", one, other)
			}
			ends[one.end]++
		}
	}
	for end := range endings {
		if ends[end] == 0 {
			t.Errorf("no client %s", end)
		}
	}
}
