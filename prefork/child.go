package prefork

import (
	"os"
	"runtime"

	"github.com/sluicehttp/sluice/internal/supervise"
)

const (
	markerVariable = "FASTHTTP_PREFORK_CHILD"
	markerValue    = "1"
)

// startedAsChild is decided when the package is loaded, before anything can
// start a process that would inherit the variable and take itself for a worker,
// or inherit the worker's sockets and keep the port.
var startedAsChild = takeMarker()

// takeMarker tells whether this process was started as a worker. It removes what
// says so from the environment, and keeps a worker's descriptors from processes
// that it starts.
func takeMarker() bool {
	value, _ := supervise.TakeEnv(markerVariable)
	if value != markerValue {
		return false
	}
	supervise.ShieldInherited()
	return true
}

// IsChild tells whether this process is a worker. The variable that says so is
// taken out of the environment when the program starts, so that processes
// which a worker starts are none.
func IsChild() bool {
	// Tests set the variable later on.
	return startedAsChild || os.Getenv(markerVariable) == markerValue
}

// limitCPUs sets the worker's GOMAXPROCS. It is no variable of the environment
// because processes that the worker starts would inherit that.
func (p *Prefork) limitCPUs() {
	switch {
	case p.GOMAXPROCS == 0:
		runtime.GOMAXPROCS(1)
	case p.GOMAXPROCS > 0:
		runtime.GOMAXPROCS(p.GOMAXPROCS)
	}
}
