package choose

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/engine"
)

// TestShared: there is one engine while it is held, and another one afterwards.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shared
		first := s.Hold()
		if s.Hold() != first {
			t.Error("two engines at a time")
		}
		s.Release()
		if s.Hold() != first {
			t.Error("the engine is another one, although it is held")
		}
		s.Release()
		s.Release()
		synctest.Wait()
		conn, _ := net.Pipe()
		if err := first.AdoptConn(conn, engine.Parcel{}, nil); !errors.Is(err, engine.ErrShutdown) {
			t.Errorf("after the last Release: %v", err)
		}
		if s.Hold() == first {
			t.Error("an engine that is shut down comes back")
		}
		s.Release()
	})
}
