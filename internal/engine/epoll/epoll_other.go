//go:build !linux || (!amd64 && !arm64)

package epoll

import (
	"errors"
	"runtime"

	"github.com/sluicehttp/sluice/internal/engine"
)

// New reports that there is no event engine for this system.
func New(engine.Options, engine.Engine) (engine.Engine, error) {
	return nil, errors.New("sluice: no event engine for " + runtime.GOOS + "/" + runtime.GOARCH)
}
