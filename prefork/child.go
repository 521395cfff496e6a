package prefork

import (
	"os"
	"runtime"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

const (
	markerVariable = "FASTHTTP_PREFORK_CHILD"
	markerValue    = "1"
)

// startedAsChild is set when the package is initialised. A process that was
// started earlier would inherit the variable and treat itself as a worker, or
// inherit the worker's sockets and keep the port open.
var startedAsChild = takeMarker()

// takeMarker reports whether this process was started as a worker. It removes the
// marker from the environment. In a worker it also prevents child processes from
// inheriting the worker's descriptors.
func takeMarker() bool {
	value, _ := supervise.TakeEnv(markerVariable)
	if value != markerValue {
		return false
	}
	supervise.ShieldInherited()
	return true
}

// IsChild reports whether this process is a worker. The environment variable that
// marks a worker is removed when the program starts, so processes that a worker
// starts are not workers.
func IsChild() bool {
	// Tests set the variable later on.
	return startedAsChild || os.Getenv(markerVariable) == markerValue
}

// holderSocket is the descriptor of a manager's socket to its holder; 0 in other processes.
var holderSocket = takeHolderSocket()

// IsManager reports whether this process manages the workers of a Prefork with Upgrade, or
// may do so soon. IsChild is false in it. The process that was started first is neither.
func IsManager() bool { return holderSocket != 0 }

// limitCPUs sets the worker's GOMAXPROCS. An environment variable would be
// inherited by the processes that the worker starts.
func (p *Prefork) limitCPUs() {
	switch {
	case p.GOMAXPROCS == 0:
		runtime.GOMAXPROCS(1)
	case p.GOMAXPROCS > 0:
		runtime.GOMAXPROCS(p.GOMAXPROCS)
	}
}
