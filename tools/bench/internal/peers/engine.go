package peers

import (
	"fmt"
	"net"

	"github.com/sluicehttp/sluice"
)

// selectEngine makes the server use the engine that the kind names.
func selectEngine(server *sluice.Server, kind string) (err error) {
	if kind != Sluice {
		server.Engine, err = sluice.ParseEngine(kind)
	}
	return err
}

// checkEngine returns an error if another engine would serve ln than the one
// that was asked for: figures of the fallback must not stand beside its name.
func checkEngine(server *sluice.Server, ln net.Listener) error {
	if server.Engine == sluice.EngineAuto {
		return nil
	}
	if info := server.EngineInfo(ln); info.Engine != server.Engine {
		return fmt.Errorf("engine %v was asked for, and %v would serve", server.Engine, info)
	}
	return nil
}
