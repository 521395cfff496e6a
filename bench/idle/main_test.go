package main

import (
	"os"
	"runtime"
	"testing"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

func TestMain(m *testing.M) {
	process.Main(map[string]process.Role{holdRole: hold})
	os.Exit(m.Run())
}

func TestMeasure(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	f, err := measure(t.Context(), peers.NetHTTP, 300)
	if err != nil {
		t.Fatal(err)
	}
	// net/http keeps a goroutine and two 4 KiB buffers for a connection.
	if grown := (f.held - f.before) / f.conns; f.conns != 300 || grown < 4<<10 || grown > 200<<10 {
		t.Errorf("%d bytes per connection (%+v)", grown, f)
	}
}

func TestCheckLimits(t *testing.T) {
	if err := checkLimits(1); err != nil {
		t.Error(err)
	}
	for _, bad := range []int{0, 1 << 30} {
		if checkLimits(bad) == nil {
			t.Errorf("%d connections: no error", bad)
		}
	}
}
